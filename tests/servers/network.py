"""Hosts of their own on this machine: network namespaces on a bridge, so that a line between two of them can be cut.

A cut is one way. The sender is told a wrong hardware address of the receiver, so what it sends is lost without a word,
as on a broken switch; what the receiver sends arrives. Only root can make namespaces.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import ExitStack
from ipaddress import IPv4Address, IPv4Network
from types import TracebackType
from typing import Final, Self

from tests.servers.server import ServerMissing

__all__ = ["Network"]

#: Nobody has this hardware address.
_NOWHERE: Final = "02:00:00:00:00:01"
#: Where the subnets begin, each of which has room for a dozen hosts, and how many there are.
_FIRST: Final = IPv4Address("10.213.0.0")
_SUBNET_BITS: Final = 28
_SUBNET_SIZE: Final = 1 << 32 - _SUBNET_BITS
_NETWORKS: Final = 60_000


class Network:
    """Some hosts and this machine on one network. A context manager.

    Args:
        hosts: how many.
    """

    def __init__(self, hosts: int) -> None:
        own = os.getpid() % _NETWORKS
        self._bridge = f"jb{own}"
        # No other process's, also not that of a worker whose id is the next one: two routes to one subnet are one.
        subnet = IPv4Network((int(_FIRST) + own * _SUBNET_SIZE, _SUBNET_BITS))
        #: Of this machine, and of the hosts.
        self._gateway, *places = (f"{address}/{_SUBNET_BITS}" for address in subnet.hosts())
        self._places = places[:hosts]
        self.addresses = [place.partition("/")[0] for place in self._places]
        self._cuts: set[tuple[int, int]] = set()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if os.geteuid() != 0 or not shutil.which("ip"):
            raise ServerMissing("a network of namespaces, which takes root and iproute2,")
        with ExitStack() as stack:
            ip("link", "add", self._bridge, "type", "bridge")
            stack.callback(ip, "link", "del", self._bridge)
            ip("addr", "add", self._gateway, "dev", self._bridge)
            ip("link", "set", self._bridge, "up")
            for number, place in enumerate(self._places):
                name = self._name(number)
                ip("netns", "add", name)
                stack.callback(ip, "netns", "del", name)  # and its line with it
                ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
                ip("link", "set", name, "master", self._bridge, "up")
                ip("-netns", name, "link", "set", "lo", "up")
                ip("-netns", name, "addr", "add", place, "dev", "eth0")
                ip("-netns", name, "link", "set", "eth0", "up")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def inside(self, number: int, user_id: int | None = None) -> list[str]:
        """What begins a command that is to run on a host, as this user, or as root."""
        there = ["ip", "netns", "exec", self._name(number)]
        if user_id is None:
            return there
        # Who changes the user loses the signal by which it dies with its parent.
        user = [f"--reuid={user_id}", f"--regid={user_id}", "--clear-groups"]
        return [*there, "setpriv", *user, "--pdeathsig=KILL", "--"]

    def cut(self, sender: int, receiver: int) -> None:
        """Lose what a host sends to another one, until `heal`."""
        self._cuts.add((sender, receiver))
        ip(
            *("-netns", self._name(sender), "neigh", "replace", self.addresses[receiver]),
            *("lladdr", _NOWHERE, "dev", "eth0", "nud", "permanent"),
        )

    def heal(self) -> None:
        """End all cuts."""
        while self._cuts:
            sender, receiver = self._cuts.pop()
            ip("-netns", self._name(sender), "neigh", "del", self.addresses[receiver], "dev", "eth0")

    def _name(self, number: int) -> str:
        return f"{self._bridge}-{number}"


def ip(*words: str) -> None:
    """Run ``ip``.

    Raises:
        subprocess.CalledProcessError: it says why.
    """
    subprocess.run(["ip", *words], check=True, timeout=30)
