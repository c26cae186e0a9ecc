"""HTTP as a program speaks it: requests of the standard library, nothing hidden."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["Answer", "Site"]


class Answer(NamedTuple):
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Site:
    """A broker's web address.

    Args:
        address: host and port.
        token: shown with each request, if there is one.
    """

    def __init__(self, address: tuple[str, int], token: str | None = None) -> None:
        self.address = address
        self.headers: dict[str, str] = {} if token is None else {"Authorization": f"Bearer {token}"}

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """One request, on a connection of its own."""
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        try:
            given = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, names, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        """GET."""
        return self.request("GET", path, None, **headers)

    def post(self, path: str, value: Any, **headers: str) -> Answer:
        """POST JSON."""
        headers.setdefault("Content_Type", "application/json")
        return self.request("POST", path, json.dumps(value).encode(), **headers)
