"""Hosts on a network of namespaces: what one sends is lost, what it is sent arrives."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import pytest

from tests.servers.network import Network
from tests.servers.server import ServerMissing

_HEAR: Final = """
import select, socket
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.bind(("0.0.0.0", 5000))
print("ready", flush=True)
print(bool(select.select([line], [], [], {patience_s})[0]))
"""
_TELL: Final = 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("{address}", 5000))'


def hears(network: Network, receiver: int, sender: int, patience_s: float = 60.0) -> bool:
    """Whether a datagram of one host reaches another one."""
    listen = [*network.inside(receiver), sys.executable, "-c", _HEAR.format(patience_s=patience_s)]
    with subprocess.Popen(listen, stdout=subprocess.PIPE, text=True) as listener:
        assert listener.stdout is not None
        assert listener.stdout.readline() == "ready\n"
        tell = _TELL.format(address=network.addresses[receiver])
        subprocess.run([*network.inside(sender), sys.executable, "-c", tell], check=True, timeout=60)
        return listener.stdout.readline() == "True\n"


def test_a_cut_is_one_way_and_ends() -> None:
    if os.geteuid() != 0:  # nobody else can make namespaces, and is told so
        with pytest.raises(ServerMissing, match="takes root"), Network(2):
            pass
        return
    with Network(2) as network:
        network.cut(0, 1)
        assert not hears(network, 1, sender=0, patience_s=0.3)
        assert hears(network, 0, sender=1)
        network.heal()
        assert hears(network, 1, sender=0)
