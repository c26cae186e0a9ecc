"""Java programs run one after the other in one virtual machine; the failure of one is told, and not the next one's."""

from __future__ import annotations

import pytest

from jdbcstore import Broker, BrokerOptions, running
from jdbcstore.store.memory import MemoryPersistenceAdapter
from tests.compat import virtual_machine
from tests.compat.activemq import JmsClients
from tests.servers.server import ServerFailed


def machines() -> list[object]:
    """The machines of this process that have nothing to do."""
    return [machine for idle in virtual_machine._idle.values() for machine in idle]


def test_programs_share_a_machine_until_one_fails(class_path: str) -> None:
    with running(Broker(MemoryPersistenceAdapter(), BrokerOptions(bind="openwire://127.0.0.1:0"))) as address:
        clients = JmsClients(class_path, "tcp://{}:{}".format(*address))
        sent = clients.send_all_types("Q")
        before = machines()
        assert clients.consume("Q") == sent != []
        assert clients.browse("Q") == []
        assert machines() == before
        with pytest.raises(ServerFailed, match=r"XaClient .* commit 1:00:00 failed\n.*not in doubt: 1:00:00"):
            clients.decide("1:00:00", commits=True)
        assert len(machines()) == len(before) - 1
        with pytest.raises(ServerFailed, match="ClassNotFoundException: NoProgram"):
            clients.run("NoProgram")
        clients.send_numbers("Q", 1, 3)
        assert [message["properties"]["number"] for message in clients.browse("Q")] == [
            ["Integer", n] for n in (1, 2, 3)
        ]
        assert len(machines()) == len(before)


def test_a_program_that_takes_too_long_goes_with_its_machine(class_path: str) -> None:
    command = ("java", "-cp", class_path)
    with pytest.raises(ServerFailed, match="took more than 2 s"):
        virtual_machine.run_program(command, "Programs", [], timeout_s=2)  # waits for requests
    assert not virtual_machine._idle[command]


def test_the_threads_that_a_program_leaves_behind_go_with_its_machine(class_path: str) -> None:
    command = ("java", "-Xmx64m", "-cp", class_path)
    for _ in range(2):
        assert virtual_machine.run_program(command, "Lingering", [], timeout_s=20) == "said\n"
    assert not virtual_machine._idle[command]
