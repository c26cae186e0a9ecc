"""Random JMS programs whose brokers fail while they run (FailoverProgram.java): they judge what they were promised."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any, ClassVar, Literal, Protocol, Self

from tests.broker_process import BrokerProcess, run_command
from tests.compat.activemq import ActiveMQ, JdbcStore, quick_start
from tests.servers.server import ServerFailed, free_port
from tests.waiting import wait_until

__all__ = ["Fault", "JavaMember", "Kind", "Member", "OurMember", "Pair", "judged"]

Fault = Literal["kill", "stop", "hand over", "freeze"]
"""Killed; ended by SIGTERM; `jdbcstore hand-over`; or stopped by SIGSTOP until the other one has taken over."""

Kind = Literal["ours", "java"]
"""Whose broker it is, as FailoverProgram.java words it."""

#: How many times the programs say that they have made steps, at most, before each fault.
STEPS_MOST = 20
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"


class Member(Protocol):
    """One of the two brokers that share a store."""

    kind: ClassVar[Kind]

    @property
    def place(self) -> str:
        """Where its clients connect: HOST:PORT."""
        ...

    def launch(self) -> None:
        """Start it; it waits until the other one is gone."""
        ...

    def is_serving(self) -> bool:
        """Whether clients are served."""
        ...

    def is_standing_by(self) -> bool:
        """Whether it waits for the other one."""
        ...

    def fail(self, fault: Fault) -> None:
        """What happens to it."""
        ...

    def restore(self, fault: Fault) -> None:
        """It is there again, after the other one has taken over."""
        ...

    def end(self) -> None:
        """End it, at the end of everything."""
        ...


class OurMember:
    """A broker of ours.

    Args:
        url: of the store.
        folder: for its log.
        name: its own.
    """

    kind: ClassVar[Kind] = "ours"

    def __init__(self, url: str, folder: Path, name: str) -> None:
        port = free_port()
        web_port = free_port()
        self.place = f"127.0.0.1:{port}"
        self._web = f"http://127.0.0.1:{web_port}"
        self._folder = folder
        self._token = folder / "token"
        self._token.write_text("0123456789abcdefghij")
        places = ["--bind", f"openwire://{self.place}", "--web-bind", f"127.0.0.1:{web_port}"]
        places += ["--web-token-file", str(self._token)]
        self.process = BrokerProcess(None, folder, "--url", url, *places, "--name", name)

    def launch(self) -> None:
        self.process.launch()

    def is_serving(self) -> bool:
        return self.process.state() == "master"

    def is_standing_by(self) -> bool:
        return self.process.state() == "standby"

    def fail(self, fault: Fault) -> None:
        if fault == "kill":
            self.process.kill()
        elif fault == "stop":
            assert self.process.stop() == 0
        elif fault == "freeze":
            self.process.pause()
        else:
            command = ["hand-over", "--broker", self._web, "--token-file", str(self._token), "--yes"]
            code, said = run_command(command, self._folder)
            assert code == 0, said

    def restore(self, fault: Fault) -> None:
        if fault == "freeze":
            self.process.proceed()
        elif fault != "hand over":
            self.process.launch()

    def end(self) -> None:
        self.process.__exit__(None, None, None)


class JavaMember:
    """A real ActiveMQ.

    Args:
        class_path: with its programs.
        folder: its own.
        store: what it shares with the other one.
        name: its own.
    """

    kind: ClassVar[Kind] = "java"

    def __init__(self, class_path: str, folder: Path, store: JdbcStore | Literal["kahadb"], name: str) -> None:
        self._activemq = ActiveMQ(class_path, folder, store, name=name)
        self.place = f"127.0.0.1:{self._activemq.openwire_port}"

    def launch(self) -> None:
        self._activemq.start()

    def is_serving(self) -> bool:
        return self._activemq.is_started()

    def is_standing_by(self) -> bool:
        return not self._activemq.is_started()

    def fail(self, fault: Fault) -> None:
        if fault == "stop":
            self._activemq.stop()
        else:
            self._activemq.kill()

    def restore(self, fault: Fault) -> None:
        self._activemq.start()

    def end(self) -> None:
        self._activemq.kill()


class Pair:
    """Two brokers of which one serves. A context manager that starts and ends them.

    Args:
        first: who serves first.
        second: who takes over.
    """

    def __init__(self, first: Member, second: Member) -> None:
        self.members = [first, second]
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for member in self.members:
            self._stack.callback(member.end)
        first, second = self.members
        first.launch()
        wait_until(first.is_serving, "the first broker serves", timeout_s=60)
        second.launch()
        wait_until(second.is_standing_by, "the second broker stands by", timeout_s=60)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def kinds(self) -> str:
        """Whose they are, as FailoverProgram.java words it."""
        return ",".join(member.kind for member in self.members)

    @property
    def places(self) -> str:
        """Where clients connect."""
        return ",".join(member.place for member in self.members)

    def fail(self, fault: Fault) -> Member:
        """The one that serves fails. Returns the other one when that serves."""
        serving, other = sorted(self.members, key=lambda member: not member.is_serving())
        serving.fail(fault)
        wait_until(other.is_serving, "the other broker serves", timeout_s=60)
        serving.restore(fault)
        wait_until(serving.is_standing_by, "the broker that failed stands by", timeout_s=60)
        return other


def judged(class_path: str, pair: Pair, faults: Sequence[Fault], seed: int, count: int) -> list[dict[str, Any]]:
    """What each program has to say at the end, as FailoverProgram.java words it.

    Args:
        class_path: with the programs.
        pair: the brokers, which run.
        faults: what happens to them, in this order, each at a step that the seed chooses.
        seed: of the first program; the next ones have the numbers behind it.
        count: how many programs there are.
    """
    chance = random.Random(seed)
    with subprocess.Popen(
        [
            *("java", *quick_start(class_path), QUIET, "-cp", class_path),
            *("FailoverProgram", pair.places, pair.kinds, str(seed), str(count)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            assert program.stdin is not None
            assert program.stdout is not None
            _skip_to(program.stdout, "ready")
            for fault in faults:
                for _ in range(chance.randint(2, STEPS_MOST)):
                    _skip_to(program.stdout, "steps")
                print("fault", file=program.stdin, flush=True)
                over = f"over {pair.fail(fault).kind}"
                print(over, file=program.stdin, flush=True)
                _skip_to(program.stdout, over)
            for _ in range(STEPS_MOST):
                _skip_to(program.stdout, "steps")
            print("finish", file=program.stdin, flush=True)
            return [json.loads(line) for line in program.stdout if line != "steps\n"]
        finally:
            program.kill()


def _skip_to(lines: IO[str], wanted: str) -> None:
    """Read until a program says something."""
    for line in lines:
        if line.strip() == wanted:
            return
    raise ServerFailed(f"the programs ended before they said: {wanted}")
