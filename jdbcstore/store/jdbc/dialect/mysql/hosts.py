"""Several servers in one URL: which of them a connection goes to.

``mysql://USER:PASSWORD@/DATABASE?host=ONE:3306&host=TWO:3306``. All connections of a process go to one server as long
as that takes writes: those of other processes may go elsewhere, but reading what one has just written is then a matter
of one server. When it does not answer, or takes no writes any more, the next one is tried, in the order of the URL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["Host", "Hosts"]

_PORT: Final = 3306
#: Where the last connection of this process went, by the servers of its URL.
_LAST: Final[dict[tuple[str, ...], int]] = {}

Host = tuple[str, int]


class Hosts:
    """The servers that the parameters of a connection name.

    Args:
        parameters: of the driver; `host` is a name, or several, each with a port or without.
    """

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        host = parameters.get("host") or "localhost"
        port = int(parameters.get("port") or _PORT)
        self._key = tuple(host.split(",")) if isinstance(host, str) else tuple(host)
        self.all = [_host(name.strip(), port) for name in self._key]

    def __iter__(self) -> Iterator[Host]:
        """Each once, beginning with the one that was met last."""
        start = _LAST.get(self._key, 0)
        for number in range(len(self.all)):
            yield self.all[(start + number) % len(self.all)]

    def __len__(self) -> int:
        return len(self.all)

    def met(self, host: Host) -> None:
        """This one takes writes: the next connection begins with it."""
        _LAST[self._key] = self.all.index(host)


def _host(name: str, port: int) -> Host:
    """``name:port``, ``[address]:port``, or without a port."""
    head, colon, tail = name.rpartition(":")
    if colon and tail.isdigit() and (":" not in head or head.endswith("]")):
        return head.strip("[]"), int(tail)
    return name.strip("[]"), port
