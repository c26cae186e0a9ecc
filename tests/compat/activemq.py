"""A real ActiveMQ Classic of the distribution's package, started privately, and a JMS client to talk to it.

Class path on Debian: the `activemq` package's own libraries, the JDBC drivers, a connection pool, a logger, and
`jaxb-api`, without which XA on the JDBC store fails on Java 11 and newer; Spring's JMS and Bitronix for programs that
use them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from sqlalchemy import make_url

from tests.compat.virtual_machine import run_program
from tests.servers.server import ServerFailed, ServerMissing, free_port, is_at_work
from tests.waiting import wait_until

SOURCES = Path(__file__).with_name("java")
ACTIVEMQ_LIBRARIES = Path("/usr/share/activemq/lib")
JAVA_LIBRARIES = Path("/usr/share/java")
NEEDED = [
    "slf4j-simple",
    "postgresql",
    "mariadb-java-client",
    "commons-dbcp",
    "commons-pool",
    "commons-pool2",
    "geronimo-jms_1.1_spec",
    "geronimo-j2ee-management-1.1-spec",
    "jaxb-api",
    "hawtbuf-proto",
    "btm",
    *[f"spring3-{part}" for part in ("aop", "beans", "context", "core", "expression")],
    *[f"spring3-{part}" for part in ("jms", "messaging", "transaction")],
]
#: Options of a virtual machine that lives briefly.
QUICK_START = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx512m"]

JmsMessage = dict[str, Any]
"""A message as JmsClient.java prints it.

Keys: `headers` (by JMS name), `properties` and, by `type`, `body`: text a string or null; bytes hexadecimal digits; map
and properties {name: [Java type, value]}; stream a list of [Java type, value]; object one [Java type, value]; message
has no body.
"""


def quick_start(class_path: str) -> list[str]:
    """Options of a virtual machine that lives briefly: one compiler, and the classes as `archive_classes` left them."""
    archive = _archive(class_path)
    return [*QUICK_START, f"-XX:SharedArchiveFile={archive}"] if archive.exists() else QUICK_START


def archive_classes(class_path: str, folder: Path) -> None:
    """Start and stop an ActiveMQ that leaves its classes, loaded and verified, for all that are started afterwards.

    Args:
        class_path: what `compile_java` answered.
        folder: for its data.
    """
    options = [*QUICK_START, f"-XX:ArchiveClassesAtExit={_archive(class_path)}"]
    with ActiveMQ(class_path, folder, "kahadb", java_options=options) as activemq:
        activemq.stop()
        if not _archive(class_path).exists():
            raise ServerFailed(f"Java made no archive of its classes\n{activemq.log()[-4000:]}")


def compile_and_archive(folder: Path) -> str:
    """What `compile_java` answers, with an archive of the classes.

    Args:
        folder: where both are made.
    """
    (folder / "activemq").mkdir()
    class_path = compile_java(folder)
    archive_classes(class_path, folder / "activemq")
    return class_path


def _archive(class_path: str) -> Path:
    return Path(class_path.partition(os.pathsep)[0]).with_suffix(".jsa")


def compile_java(folder: Path) -> str:
    """Compile the Java sources beside this file.

    Args:
        folder: where the class files go, and a library of them.

    Returns:
        A class path with the classes and everything they need.

    Raises:
        ServerMissing: Java, ActiveMQ or a library is not installed.
    """
    javac = shutil.which("javac")
    if javac is None:
        raise ServerMissing("A Java development kit")
    libraries = [JAVA_LIBRARIES / f"{name}.jar" for name in NEEDED]
    for library in (ACTIVEMQ_LIBRARIES / "activemq-broker.jar", *libraries):
        if not library.exists():
            raise ServerMissing(library.name)
    class_path = os.pathsep.join([f"{ACTIVEMQ_LIBRARIES}/*", *map(str, libraries)])
    sources = [str(source) for source in sorted(SOURCES.glob("*.java"))]
    options = [f"-J{option}" for option in QUICK_START]
    options += ["-encoding", "UTF-8", "-proc:none", "-nowarn", "-cp", class_path, "-d", str(folder)]
    done = subprocess.run([javac, *options, *sources], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise ServerFailed(f"javac failed:\n{done.stdout}{done.stderr}")
    programs = folder / "programs.jar"  # only what is in one can be archived
    done = subprocess.run(
        [
            "jar",
            "--create",
            "--file",
            str(programs),
            *(str(file.relative_to(folder)) for file in folder.glob("*.class")),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode != 0:
        raise ServerFailed(f"jar failed:\n{done.stdout}{done.stderr}")
    return f"{programs}{os.pathsep}{class_path}"


@dataclass(frozen=True)
class JdbcStore:
    """Where and how a real ActiveMQ keeps its messages in SQL.

    Attributes:
        url: SQLAlchemy's URL of the database, with user and password.
        lock: the default locker (a row lock held for life), the lease locker, or no lock at all.
        create_tables: ActiveMQ's createTablesOnStartup.
        lease_ms: how long a lease lasts.
        renew_ms: how often it is renewed.
    """

    url: str
    lock: Literal["default", "lease", "none"] = "default"
    create_tables: bool = True
    lease_ms: int = 5000
    renew_ms: int = 1500

    def arguments(self) -> dict[str, str]:
        """What ActiveMq.java is told."""
        url = make_url(self.url)
        on_postgresql = url.get_backend_name() == "postgresql"
        scheme = "postgresql" if on_postgresql else "mariadb"
        query = "" if on_postgresql else "?allowPublicKeyRetrieval=true"  # how MySQL 9 checks a password without TLS
        return {
            "driver": "org.postgresql.Driver" if on_postgresql else "org.mariadb.jdbc.Driver",
            "adapter": "auto" if on_postgresql else "mysql",
            "url": f"jdbc:{scheme}://{url.host}:{url.port}/{url.database}{query}",
            "user": url.username or "",
            "password": url.password or "",
            "lock": self.lock,
            "create_tables": str(self.create_tables).lower(),
            "lease_ms": str(self.lease_ms),
            "renew_ms": str(self.renew_ms),
        }


class JmsClients:
    """The Java programs beside this file, run against one broker, in virtual machines that are kept for the next call.

    Args:
        class_path: what `compile_java` answered.
        url: the broker's OpenWire address.
    """

    def __init__(self, class_path: str, url: str) -> None:
        self.class_path = class_path
        self.url = url

    def log(self) -> str:
        """Everything that the broker has logged, as far as it is known."""
        return ""

    def send_all_types(self, queue: str) -> list[JmsMessage]:
        """Send one message of every JMS type, with every header and property; the messages as they were sent."""
        return self._client("send", queue)

    def consume(self, queue: str, idle_ms: int = 1000) -> list[JmsMessage]:
        """Receive and acknowledge a queue's messages until none has come for a while."""
        return self._client("consume", queue, str(idle_ms))

    def browse(self, queue: str) -> list[JmsMessage]:
        """A queue's messages, which stay there."""
        return self._client("browse", queue)

    def publish(self, topic: str, first: int, count: int) -> None:
        """Publish text messages with the properties number and colour (red, green and blue in turn)."""
        self._client("publish", topic, str(first), str(count), program="DurableClient")

    def subscribe_durably(self, topic: str, client_id: str, name: str, selector: str = "-") -> None:
        """Create a durable subscription, or find it; nobody stays subscribed."""
        self._client("subscribe", topic, client_id, name, selector, program="DurableClient")

    def consume_durably(
        self, topic: str, client_id: str, name: str, count: int = 0, selector: str = "-", idle_ms: int = 1500
    ) -> list[int]:
        """Receive and acknowledge one after the other, all there are if `count` is 0; the numbers of the messages."""
        arguments = (topic, client_id, name, selector, str(count), str(idle_ms))
        return [message["number"] for message in self._client("consume", *arguments, program="DurableClient")]

    def unsubscribe(self, topic: str, client_id: str, name: str) -> None:
        """Delete a durable subscription."""
        self._client("unsubscribe", topic, client_id, name, program="DurableClient")

    def run(self, program: str, *arguments: str) -> list[JmsMessage]:
        """Run one of the Java programs beside this file against it; what it prints, an object a line."""
        return self._client(*arguments, program=program)

    def prepare(self, xid: str, *work: str, client_id: str = "-") -> list[int]:
        """Do work in an XA transaction, as XaClient.java words it, and prepare that; the numbers received."""
        done = self._client(client_id, "prepare", xid, *work, program="XaClient")
        return [message["number"] for message in done]

    def in_doubt(self) -> set[str]:
        """The transactions that an XA resource recovers."""
        return {found["xid"] for found in self._client("-", "recover", program="XaClient")}

    def decide(self, xid: str, *, commits: bool) -> None:
        """Second phase of a recovered transaction."""
        self._client("-", "commit" if commits else "rollback", xid, program="XaClient")

    def send_numbers(self, destination: str, first: int, count: int) -> None:
        """Send numbered text messages to a destination, in an XA transaction of one phase."""
        self._client("-", "once", "1:00:00", "send", destination, str(first), str(count), program="XaClient")

    def _client(self, *arguments: str, program: str = "JmsClient") -> list[JmsMessage]:
        command = ["java", *quick_start(self.class_path), "-cp", self.class_path]
        try:
            printed = run_program(command, program, [self.url, *arguments], timeout_s=100)
        except ServerFailed as error:
            raise ServerFailed(f"{error}\n{self.log()[-4000:]}") from error
        return [json.loads(line) for line in printed.splitlines()]


class ActiveMQ(JmsClients):
    """A real ActiveMQ, in a process that ends with this one. Use it as a context manager, or call `start` and `stop`.

    Args:
        class_path: what `compile_java` answered.
        folder: its data, and its log in `activemq.log`.
        store: a JDBC store, or "kahadb", "mkahadb" or "memory".
        name: the broker's name.
        prioritized: whether its queues and topics keep messages in the order of their priority.
        scheduler: the folder of its scheduler; None for a broker without one.
        journal_max_file_length: of KahaDB, in bytes; None is ActiveMQ's default.
        cleanup_interval_ms: how often KahaDB removes files that it does not need, besides when it stops; None is
            ActiveMQ's default, 30 000.
        compacts: whether KahaDB looks ten times a second for acknowledgements to be compacted.
        checks_files: whether KahaDB reads all journal files at its start and refuses damaged ones.
        store_wire_version: the OpenWire version in which a new store is written; None is ActiveMQ's default, 11.
        java_options: of the virtual machine; the default starts fast and is no basis for a measurement.
    """

    def __init__(
        self,
        class_path: str,
        folder: Path,
        store: JdbcStore | Literal["kahadb", "mkahadb", "memory"],
        *,
        name: str = "activemq",
        prioritized: bool = False,
        scheduler: Path | None = None,
        journal_max_file_length: int | None = None,
        cleanup_interval_ms: int | None = None,
        compacts: bool = False,
        checks_files: bool = False,
        store_wire_version: int | None = None,
        java_options: Sequence[str] | None = None,
    ) -> None:
        self.openwire_port = free_port()
        super().__init__(class_path, f"tcp://127.0.0.1:{self.openwire_port}")
        self.folder = folder
        self.store = store
        self.name = name
        self.prioritized = prioritized
        self.scheduler = scheduler
        self.journal_max_file_length = journal_max_file_length
        self.cleanup_interval_ms = cleanup_interval_ms
        self.compacts = compacts
        self.checks_files = checks_files
        self.store_wire_version = store_wire_version
        self.java_options = quick_start(class_path) if java_options is None else java_options
        self.stomp_port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        self.wait_until_started()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """The process that runs."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the process; a standby serves nobody until it is master, so waiting is a call of its own."""
        arguments = {
            "name": self.name,
            "data": str(self.folder),
            "stomp": str(self.stomp_port),
            "openwire": str(self.openwire_port),
            "prioritized": str(self.prioritized).lower(),
        }
        if self.scheduler is not None:
            arguments["scheduler"] = str(self.scheduler)
        if self.store_wire_version is not None:
            arguments["store_wire_version"] = str(self.store_wire_version)
        if isinstance(self.store, JdbcStore):
            arguments |= {"store": "jdbc"} | self.store.arguments()
        else:
            arguments["store"] = self.store
            if self.journal_max_file_length is not None:
                arguments["journal_max_file_length"] = str(self.journal_max_file_length)
            if self.cleanup_interval_ms is not None:
                arguments["cleanup_interval_ms"] = str(self.cleanup_interval_ms)
            if self.checks_files:
                arguments["checks_files"] = "true"
            if self.compacts:
                arguments["compaction"] = "true"
        java = ["java", *self.java_options, "-cp", self.class_path, "ActiveMq"]
        with (self.folder / "activemq.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *java, *(f"{name}={value}" for name, value in arguments.items())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def wait_until_started(self, timeout_s: float = 90.0) -> None:
        """Return when it serves clients of both protocols.

        Raises:
            ServerFailed: the process ended, or the time is over; the message ends with the log.
        """
        deadline = time.monotonic() + timeout_s
        while not self.is_started(patience_s=5.0):
            if self._process is None or self._process.poll() is not None:
                raise ServerFailed(f"ActiveMQ ended before it answered\n{self.log()[-4000:]}")
            if time.monotonic() > deadline:
                raise ServerFailed(f"ActiveMQ did not answer within {timeout_s} s\n{self.log()[-4000:]}")
            time.sleep(0.05)

    def is_started(self, patience_s: float = 0.5) -> bool:
        """Whether it greets OpenWire clients; false for a standby, whose ports accept but stay silent.

        Args:
            patience_s: how long the greeting may take, in seconds.
        """
        try:
            with socket.create_connection(("127.0.0.1", self.openwire_port), timeout=patience_s) as probe:
                return probe.recv(1) != b""
        except OSError:
            return False

    def pause(self) -> None:
        """Stop it (SIGSTOP): what it has written stays as it is. It may be killed then."""
        os.kill(self.pid, signal.SIGSTOP)
        wait_until(lambda: not is_at_work(self.pid), "ActiveMQ has stopped")

    def proceed(self) -> None:
        """Let it go on (SIGCONT)."""
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """Stop it cleanly."""
        if self._process is not None:
            self._process.terminate()
            self._wait(self._process)

    def kill(self) -> None:
        """`kill -9` it."""
        if self._process is not None:
            self._process.kill()
            self._wait(self._process)

    def log(self) -> str:
        """Everything it has logged."""
        return (self.folder / "activemq.log").read_text(errors="replace")

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        self._process = None
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ServerFailed(f"ActiveMQ did not stop within 60 s and was killed\n{self.log()[-4000:]}") from None
