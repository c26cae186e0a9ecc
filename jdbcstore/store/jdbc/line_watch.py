"""Nobody waits for ever: a line to the database on which an answer is overdue is cut.

A server that is stopped, or a network that swallows packets, leaves a driver waiting: libpq knows no timeout for an
answer, and TCP gives up after a quarter of an hour. So one thread of the process looks at the lines on which an answer
is expected, and shuts down the socket of one that has waited too long. The driver's call then fails as with any broken
line. In the same way all lines of a store are cut when it is abandoned.

A question costs two assignments and a look at the clock. The thread is woken only when it would sleep too long. It
ends with the last line.

Time in which this process stood still (a virtual machine that is moved) is not the database's. The thread that looks
wakes up late then; before it cuts anything it gives the answers that time, and those who wait for them a second to read
them. Else a commit that succeeded would have an unknown outcome. It does that once before it cuts: where there is never
a processor in time, nobody waits for ever either.
"""

from __future__ import annotations

import contextlib
import logging
import math
import socket
import threading
import time
import weakref
from collections.abc import Mapping
from queue import Empty, SimpleQueue
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from jdbcstore.errors import StoreUnavailable
from jdbcstore.store.jdbc.dialect import dialect_for
from jdbcstore.store.jdbc.options import JdbcOptions

__all__ = ["Line", "Lines", "engine_for", "line_of", "pooled_engine", "watched_engine"]

log = logging.getLogger(__name__)

#: How often the thread looks while answers are expected, to notice that the process stood still.
_LOOKS_S: Final = 0.5
#: How late it is then at least. A busy interpreter alone is not that late.
_STILL_S: Final = 0.25
#: What is needed at least, after that, to read the answers that came meanwhile.
_READS_S: Final = 1.0

#: Where a connection of SQLAlchemy keeps its line.
_LINE: Final = "jdbcstore.line"


class Line:
    """One connection to the database. As a context manager it expects an answer before the end of the block.

    Args:
        own: a duplicate of the driver's socket, since the number of the driver's may belong to something else by the
            time it is used. None when there is no server.
        answer_timeout_s: how long an answer may take.
    """

    __slots__ = ("_answer_timeout_s", "_closing", "_own", "due_s")

    def __init__(self, own: socket.socket | None = None, answer_timeout_s: float = math.inf) -> None:
        self._own = own
        self._answer_timeout_s = answer_timeout_s
        #: Nothing is shut down by a number that was given back meanwhile. A finalizer may close what its thread cuts.
        self._closing = threading.RLock()
        #: When an answer is overdue, by the monotonic clock; infinite while nothing is asked.
        self.due_s = math.inf

    def expect(self, timeout_s: float | None = None) -> None:
        """A question is about to be sent. Its answer may take `timeout_s`, or as long as any."""
        self.due_s = due_s = time.monotonic() + (self._answer_timeout_s if timeout_s is None else timeout_s)
        if due_s < _watch.wakes_s:
            _watch.wake(due_s)

    def answered(self) -> None:
        """The answer is here, or an error is."""
        self.due_s = math.inf

    def __enter__(self) -> None:
        self.expect()

    def __exit__(self, *exc: object) -> None:
        self.due_s = math.inf

    def cut(self) -> None:
        """Let whoever waits for an answer fail at once."""
        if self._own is not None:
            with self._closing, contextlib.suppress(OSError):  # it is broken or closed already
                self._own.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the driver's socket."""
        if self._own is not None:
            with self._closing:
                self._own.close()


class _Watch:
    """The lines of this process and the thread that looks at them.

    **Neither asking nor forgetting a line takes a lock.** Connections that were not closed are let go by the garbage
    collector, which runs in whatever thread happens to need memory, in the middle of anything: also in a thread that
    another one waits for with a lock in its hand. So two sides that may miss each other write first and read then, and
    one of the two always sees the other: `Line.due_s` and `wakes_s`, `_owners` and `Lines.is_cut`. The thread is woken
    through a queue whose `put` may be called by finalizers.
    """

    def __init__(self) -> None:
        self.wakes_s = math.inf
        #: Nothing is cut before, because the process stood still.
        self._spared_until_s = 0.0
        self._owners: dict[Line, Lines] = {}  # each change is one step of the interpreter
        self._calls: SimpleQueue[None] = SimpleQueue()
        #: For the begin and the end of the thread only, and never taken by what a finalizer may call.
        self._changing_thread = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, line: Line, owner: Lines) -> None:
        """Look at a line from now on. Raises `StoreUnavailable` when all lines of its owner were cut."""
        self._owners[line] = owner
        try:
            owner.require_uncut()
        except StoreUnavailable:
            self.discard(line)
            raise
        with self._changing_thread:
            if self._thread is None or not self._thread.is_alive():  # a fork leaves one that is not
                self._thread = threading.Thread(target=self._run, name="jdbcstore-watch", daemon=True)
                self._thread.start()

    def discard(self, line: Line) -> None:
        """Forget a line; the driver closes it."""
        line.close()
        self._owners.pop(line, None)
        if not self._owners:
            self._calls.put(None)

    def cut(self, owner: Lines) -> None:
        """Cut and forget all lines of an owner, which gets no others."""
        owner.is_cut = True
        for line, whose in list(self._owners.items()):
            if whose is owner:
                line.cut()
                self.discard(line)

    def wake(self, due_s: float) -> None:
        """Make sure that the thread looks again by then."""
        self.wakes_s = due_s
        self._calls.put(None)

    def _run(self) -> None:
        while self._is_needed():
            self._look()

    def _is_needed(self) -> bool:
        with self._changing_thread:
            if not self._owners:  # whoever adds a line after this look begins another thread
                self._thread = None
            return self._thread is not None

    def _look(self) -> None:
        self.wakes_s = math.inf
        now_s = time.monotonic()
        is_sparing = now_s < self._spared_until_s
        if not is_sparing:
            for line in list(self._owners):
                if line.due_s <= now_s:
                    log.warning("the database does not answer in time (query_timeout_s), its connection is cut")
                    line.cut()
                    self.discard(line)
        due_s = min((line.due_s for line in list(self._owners)), default=now_s)
        self.wakes_s = max(due_s, self._spared_until_s)
        wakes_s = min(self.wakes_s, now_s + _LOOKS_S) if due_s < math.inf else math.inf
        with contextlib.suppress(Empty):
            self._calls.get(timeout=None if wakes_s == math.inf else max(0.0, wakes_s - now_s))
        now_s = time.monotonic()
        if (late_s := now_s - wakes_s) > _STILL_S and not is_sparing:
            self._spared_until_s = now_s + max(late_s, _READS_S)


_watch: Final = _Watch()


class Lines:
    """The lines of one engine. What SQLAlchemy asks is watched; who asks the driver himself uses `line_of`.

    Args:
        engine: new, nothing has been connected yet.
        options: the timeouts.
    """

    def __init__(self, engine: Engine, options: JdbcOptions) -> None:
        self.is_cut = False
        self._dialect = dialect_for(engine.dialect.name)
        self._answer_timeout_s = self._dialect.answer_timeout_s(options)
        self._connect_timeout_s = options.connect_timeout_s
        event.listen(engine, "do_connect", self._connect)
        if self._dialect.has_server:
            event.listen(engine, "checkin", self._checked_in)
            for identifier, listener in _LISTENERS.items():
                event.listen(engine, identifier, listener)

    def cut(self) -> None:
        """Let everybody who waits for an answer fail at once, and nobody connect any more."""
        _watch.cut(self)

    def require_uncut(self) -> None:
        """Raise `StoreUnavailable` after `cut`."""
        if self.is_cut:
            raise StoreUnavailable("the store was closed while this was waiting for the database")

    def _connect(
        self, dialect: object, record: ConnectionPoolEntry, arguments: list[Any], parameters: dict[str, Any]
    ) -> DBAPIConnection | None:
        self.require_uncut()
        self._dialect.make_file(arguments, parameters)
        record.info[_LINE] = Line()

        def opened(own: socket.socket) -> None:
            _watch.discard(record.info[_LINE])  # that of a server that was tried before this one
            line = Line(own, self._answer_timeout_s)
            _watch.add(line, self)
            record.info[_LINE] = line
            line.expect(self._connect_timeout_s)  # until SQLAlchemy has asked what it wants to know

        try:
            raw = self._dialect.connect(parameters, opened)
        except BaseException:  # refused, after the line was there: nobody will close it
            _watch.discard(record.info.pop(_LINE))
            raise
        if raw is not None:
            # One that breaks before it is in SQLAlchemy's pool is dropped without an event.
            weakref.finalize(raw, _watch.discard, record.info[_LINE]).atexit = False
        return raw

    def _checked_in(self, raw: object, record: ConnectionPoolEntry) -> None:
        if (line := record.info.get(_LINE)) is not None:  # None: it could not connect
            line.answered()
        if self.is_cut:  # the pool may have been closed meanwhile, and this would come too late to be closed with it
            record.invalidate()


def line_of(connection: Connection) -> Line:
    """The line of a connection that is open."""
    line: Line = connection.info[_LINE]
    return line


def engine_for(url: URL, options: JdbcOptions) -> Engine:
    """An engine with the session settings that the store relies on."""
    return pooled_engine(url, options)[0]


def pooled_engine(url: URL, options: JdbcOptions) -> tuple[Engine, Lines]:
    """An engine with as many connections as the options allow, and its lines."""
    size = options.pool_size
    return watched_engine(url, options, pool_size=size, max_overflow=size, pool_timeout=options.query_timeout_s)


def watched_engine(url: URL, options: JdbcOptions, **arguments: Any) -> tuple[Engine, Lines]:
    """An engine with the session settings that the store relies on, and its lines.

    Args:
        url: of the database.
        options: the timeouts.
        arguments: more for `sqlalchemy.create_engine`.
    """
    engine = create_engine(
        url,
        isolation_level="AUTOCOMMIT",  # each read has a snapshot of its own and leaves no transaction behind
        **dialect_for(url.get_backend_name()).engine_arguments(options, url.query),
        **arguments,
    )
    return engine, Lines(engine, options)


# -- SQLAlchemy's events ---------------------------------------------------------------------------------------------


def _connected(raw: object, record: ConnectionPoolEntry) -> None:
    record.info[_LINE].answered()


def _resetting(raw: object, record: ConnectionPoolEntry, state: object) -> None:
    record.info[_LINE].expect()


def _closing(raw: object, record: ConnectionPoolEntry) -> None:
    _watch.discard(record.info[_LINE])


def _asking(connection: Connection, *_: object) -> None:
    if not (connection.invalidated or connection.closed):
        line_of(connection).expect()


def _answered(connection: Connection, *_: object) -> None:
    line_of(connection).answered()


def _failed(context: ExceptionContext) -> None:
    connection = context.connection
    if connection is not None and not (connection.invalidated or connection.closed):
        # At SQLAlchemy's first questions it has no info yet. What is raised here would be told instead of the error.
        with contextlib.suppress(NotImplementedError):
            line_of(connection).answered()


#: A transaction's end has no event of its own; it is the next statement's, or that of giving the connection back.
_LISTENERS: Final[Mapping[str, Any]] = {
    "connect": _connected,
    "reset": _resetting,
    "close": _closing,
    "before_cursor_execute": _asking,
    "after_cursor_execute": _answered,
    "commit": _asking,
    "rollback": _asking,
    "handle_error": _failed,
}
