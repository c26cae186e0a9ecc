"""Two machines with a cable between them that can be cut: network namespaces, made and removed by the test.

The cable runs over a bridge in a third namespace. When it is cut at the bridge, packets are lost in silence, as between
real machines: neither side's own interface goes down, and nobody answers in the other's place.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

__all__ = ["Network", "NetworkMissing"]

_NEWNET: Final = 0x40000000


class NetworkMissing(Exception):
    """This machine does not let us make network namespaces."""


class Network:
    """A broker's machine, 10.213.0.1, and a client's, 10.213.0.2. A context manager.

    Raises:
        NetworkMissing: ip is not installed, or this process may not make namespaces.
    """

    BROKER: Final = "10.213.0.1"
    CLIENT: Final = "10.213.0.2"

    def __init__(self) -> None:
        stem = f"jdbcstore-{os.getpid()}"
        self._broker, self._client, self._middle = f"{stem}-broker", f"{stem}-client", f"{stem}-middle"

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    @contextmanager
    def on_broker(self) -> Iterator[None]:
        """Sockets of this thread, and of threads that it starts in the block, are on the broker's machine."""
        with _inside(self._broker):
            yield

    @contextmanager
    def on_client(self) -> Iterator[None]:
        """Sockets of this thread, and of threads that it starts in the block, are on the client's machine."""
        with _inside(self._client):
            yield

    def cut(self) -> None:
        """Cut the cable."""
        _ip("-n", self._middle, "link", "set", "client", "down")

    def mend(self) -> None:
        """Connect it again."""
        _ip("-n", self._middle, "link", "set", "client", "up")

    def _make(self) -> None:
        for name in (self._broker, self._client, self._middle):
            _ip("netns", "add", name)
        middle = ("-n", self._middle, "link")
        _ip(*middle, "add", "bridge", "type", "bridge")
        _ip(*middle, "set", "bridge", "up")
        for name, end, address in (
            (self._broker, "broker", self.BROKER),
            (self._client, "client", self.CLIENT),
        ):
            _ip(*middle, "add", end, "type", "veth", "peer", "name", "cable", "netns", name)
            _ip(*middle, "set", end, "master", "bridge", "up")
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            _ip("-n", name, "link", "set", "cable", "up")
            _ip("-n", name, "link", "set", "lo", "up")

    def _remove(self) -> None:
        for name in (self._broker, self._client, self._middle):
            if Path("/run/netns", name).exists():
                _ip("netns", "delete", name)


def _ip(*arguments: str) -> None:
    try:
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=20, check=False)
    except FileNotFoundError:
        raise NetworkMissing("ip is not installed: scripts/install-test-servers does that") from None
    if done.returncode != 0:
        raise NetworkMissing(
            f"ip {' '.join(arguments)}: {done.stderr.strip()}; this test makes network namespaces: run it as root, in a"
            " container with --cap-add=NET_ADMIN --cap-add=SYS_ADMIN"
        )


@contextmanager
def _inside(namespace: str) -> Iterator[None]:
    with open("/proc/thread-self/ns/net") as before, open(f"/run/netns/{namespace}") as wanted:
        _enter(wanted.fileno())
        try:
            yield
        finally:
            _enter(before.fileno())


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _NEWNET) != 0:
        raise NetworkMissing(f"cannot enter a network namespace: {os.strerror(ctypes.get_errno())}; run it as root")
