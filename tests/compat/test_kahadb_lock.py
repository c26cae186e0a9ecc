"""A real ActiveMQ and ours on one KahaDB directory are master and standby, whoever came first."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from jdbcstore.store.journal.shared_file_lock import SharedFileLocker
from tests.compat.activemq import ActiveMQ
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(200)

WAIT_S = 60.0
#: What ActiveMQ logs when it finds the lock taken; from then on it tries five times a second.
TAKEN = "is now in slave mode waiting a lock"


def wait_for_line(activemq: ActiveMQ, line: str) -> None:
    wait_until(lambda: line in activemq.log(), lambda: f"{line!r}: {activemq.log()[-4000:]}", timeout_s=WAIT_S)


def test_ours_waits_while_java_holds_the_lock_and_java_while_ours_does(class_path: str, tmp_path: Path) -> None:
    locker = SharedFileLocker(tmp_path / "kahadb")
    with ActiveMQ(class_path, tmp_path, "kahadb") as activemq:
        assert locker.acquire() is None
        assert locker.status().holder == f"process {activemq.pid}"
        locker.wait(2.0)  # in which it looks at the file ten times
        assert activemq.is_started(patience_s=WAIT_S)
        activemq.kill()
        locker.wait(WAIT_S)
        assert locker.acquire() == 1
        activemq.start()
        wait_for_line(activemq, TAKEN)
        time.sleep(1.0)
        assert not activemq.is_started()
        locker.prove()
        locker.release()
        activemq.wait_until_started()
        assert locker.acquire() is None
        activemq.stop()
        assert locker.acquire() == 2
        locker.release()
