"""The sign of life of a holder: dead is only who is surely dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jdbcstore.store.jdbc import liveness_file
from tests.waiting import wait_until

HOLDER = "east-0123456789ab"
#: Has the sign of life of the holder, says so, and goes on as told.
HAS_FILE = (
    "import sys, time; from jdbcstore.store.jdbc.liveness_file import LivenessFile; sign = LivenessFile(sys.argv[1]); "
)
TELL_AND_LIVE = "print('here', flush=True); time.sleep(600)"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a temporary folder of the test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"jdbcstore-{os.getuid()}"


@contextmanager
def process(program: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "TMPDIR": str(folder.parent)}
    command = [sys.executable, "-c", HAS_FILE + program, HOLDER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "here\n"
            yield running
        finally:
            running.kill()


def kill(running: subprocess.Popen[str]) -> None:
    running.kill()
    running.wait(60)


def test_a_process_that_was_killed_is_dead_and_then_forgotten(folder: Path) -> None:
    with process(TELL_AND_LIVE, folder) as running:
        assert not liveness_file.is_dead(HOLDER)
        kill(running)
        assert liveness_file.is_dead(HOLDER)
        assert liveness_file.is_dead(HOLDER)
        liveness_file.forget(HOLDER)
        assert not liveness_file.is_dead(HOLDER)
        assert list(folder.iterdir()) == []


def test_a_process_that_is_stopped_lives(folder: Path) -> None:
    with process(TELL_AND_LIVE, folder) as running:
        running.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, running.pid, os.WSTOPPED | os.WNOWAIT)
        assert not liveness_file.is_dead(HOLDER)
        liveness_file.forget(HOLDER)
        assert len(list(folder.iterdir())) == 1


def test_a_zombie_is_dead(folder: Path) -> None:
    """What is not collected yet by its parent does nothing more."""
    with process(TELL_AND_LIVE, folder) as running:
        running.kill()
        os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)
        assert liveness_file.is_dead(HOLDER)


def test_a_forked_child_that_lives_on_does_not_count_as_the_holder(folder: Path) -> None:
    with process("import os; child = os.fork(); child or time.sleep(600); print('here', flush=True); "
                 "time.sleep(600)", folder) as running:  # fmt: skip
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        try:
            kill(running)
            assert len(children) == 1
            wait_until(lambda: liveness_file.is_dead(HOLDER))  # the child closes the file in its first moment
        finally:
            for child in children:
                os.kill(int(child), signal.SIGKILL)


def test_a_program_that_the_holder_started_does_not(folder: Path) -> None:
    sleeper = (
        "import subprocess; child = subprocess.Popen(['sleep', '600'], close_fds=False, stdout=subprocess.DEVNULL); "
    )
    with process(sleeper + TELL_AND_LIVE, folder) as running:
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        try:
            kill(running)
            assert len(children) == 1
            assert liveness_file.is_dead(HOLDER)
        finally:
            for child in children:
                os.kill(int(child), signal.SIGKILL)


def test_who_has_let_go_is_not_known_to_be_dead(folder: Path) -> None:
    sign = liveness_file.LivenessFile(HOLDER)
    assert not liveness_file.is_dead(HOLDER)
    sign.stop()
    sign.stop()
    assert not liveness_file.is_dead(HOLDER)
    assert list(folder.iterdir()) == []


def test_of_another_holder_nothing_is_known(folder: Path) -> None:
    with process(TELL_AND_LIVE, folder) as running:
        kill(running)
        assert not liveness_file.is_dead("java")
        assert not liveness_file.is_dead(HOLDER + "1")


def test_files_of_another_machine_are_not_looked_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with process(TELL_AND_LIVE, folder) as running:
        kill(running)
        monkeypatch.setattr(liveness_file, "_machine", lambda: "another kernel")
        assert not liveness_file.is_dead(HOLDER)


def test_a_file_that_was_tidied_away_says_nothing(folder: Path) -> None:
    with process(TELL_AND_LIVE, folder) as running:
        for file in folder.iterdir():
            file.unlink()
        kill(running)
        assert not liveness_file.is_dead(HOLDER)


def test_the_folder_is_for_us_alone(folder: Path) -> None:
    sign = liveness_file.LivenessFile(HOLDER)
    assert folder.stat().st_mode & 0o777 == 0o700
    sign.stop()


def test_a_folder_that_others_may_write_to_is_not_used(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with process(TELL_AND_LIVE, folder) as running:
        kill(running)
        folder.chmod(0o770)
        assert not liveness_file.is_dead(HOLDER)
        before = list(folder.iterdir())
        with caplog.at_level("INFO"):
            liveness_file.LivenessFile("another").stop()
        assert list(folder.iterdir()) == before
        assert "remove it" in caplog.text


def test_a_link_in_place_of_the_folder_is_not_followed(folder: Path) -> None:
    with process(TELL_AND_LIVE, folder) as running:
        kill(running)
        assert liveness_file.is_dead(HOLDER)
        elsewhere = folder.rename(folder.with_name("elsewhere"))
        folder.symlink_to(elsewhere)
        assert not liveness_file.is_dead(HOLDER)


def test_a_link_in_place_of_the_file_is_not_followed(folder: Path) -> None:
    with process(TELL_AND_LIVE, folder) as running:
        kill(running)
        (file,) = folder.iterdir()
        elsewhere = file.rename(folder.parent / "elsewhere")
        file.symlink_to(elsewhere)
        assert not liveness_file.is_dead(HOLDER)


def test_what_was_left_long_ago_is_tidied_up_and_nothing_else(folder: Path) -> None:
    with process(TELL_AND_LIVE, folder) as running:
        (left,) = folder.iterdir()
        living = liveness_file.LivenessFile("long at it")
        new = liveness_file.LivenessFile("new")
        for file in folder.iterdir():
            os.utime(file, (1.0, 1.0))
        kill(running)
        fresh = folder / "fresh"
        fresh.touch(0o600)
        with process("sign.stop(); print('here', flush=True)", folder):
            pass  # one that has not tidied up before
        assert not left.exists()
        assert fresh.exists()
        assert len(list(folder.iterdir())) == 3
        new.stop()
        living.stop()
