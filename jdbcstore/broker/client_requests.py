"""What a client has asked for and is not answered yet: it may have to wait, and each request is answered once.

`ClientRequests` is the lowest part of a client (`jdbcstore.broker.client`), on which its other parts stand.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from jdbcstore.broker.access import Access
from jdbcstore.broker.callbacks import ClientCallbacks, Gone
from jdbcstore.broker.client_host import ClientHost
from jdbcstore.broker.phase import NEXT, Phase
from jdbcstore.broker.watchdog import subject
from jdbcstore.errors import JdbcStoreError, NotAuthorized

__all__ = ["ClientRequests"]

log = logging.getLogger(__name__)


class ClientRequests:
    """The requests of one client.

    Args:
        broker: whose client it is.
        callbacks: the transport's side.
        connection_id: its name; None for a new one.

    Attributes:
        connection_id: unique among all brokers and for ever.
        client_id: what the client calls itself; None before it is let in, or if it has no name.
        callbacks: the transport's side.
        phase: where it is in its life.
        is_held: whether it has to wait: no requests now.
        access: who it is, and what it may do.
        memory: everybody's account.
    """

    def __init__(self, broker: ClientHost, callbacks: ClientCallbacks, connection_id: str | None = None) -> None:
        self.connection_id = connection_id or broker.next_connection_id()
        self.client_id: str | None = None
        self.callbacks = callbacks
        self.phase = Phase.OPENING
        self.is_held = False
        self.access = Access(broker, callbacks.peer)
        self.memory = broker.memory
        self._broker = broker
        self._holds = 0
        self._answers_due = 0
        self._waits_for_answers = False
        self._is_over_uncommitted = False
        self._uncommitted_bytes = 0
        self._uncommitted_bytes_max = broker.options.uncommitted_bytes_max
        self._said_goodbye: Callable[[], object] = lambda: None
        self._has_heard_all: Callable[[], object] | None = None

    def __repr__(self) -> str:
        return f"<client {self.connection_id} {self.peer}>"

    @property
    def peer(self) -> str:
        """Its address."""
        return self.callbacks.peer

    @property
    def is_open(self) -> bool:
        """Whether it was let in, and is not on its way out."""
        return self.phase is Phase.OPEN

    @property
    def is_closed(self) -> bool:
        """Whether it is gone."""
        return self.phase is Phase.CLOSED

    @property
    def is_over(self) -> bool:
        """Whether nothing reaches it any more."""
        return self.phase is Phase.ENDING or self.phase is Phase.CLOSED

    def _remains(self) -> ClientRequests:
        """What is left of it when it is gone: whoever knows it still may go on asking, and nothing else is kept."""
        remains = ClientRequests(self._broker, Gone(self.callbacks.protocol, self.peer), self.connection_id)
        remains.client_id, remains.access, remains.phase = self.client_id, self.access, Phase.CLOSED
        return remains

    def _advance(self, phase: Phase) -> None:
        """Go on to a later phase. There is no way back: who is ending is not let in any more."""
        if phase in NEXT[self.phase]:
            self.phase = phase

    def disconnect(self, text: str, *, reason: str) -> None:
        """End the connection with an error.

        Args:
            text: what the client is told.
            reason: what the log says.
        """
        log.warning("client disconnected peer=%s reason=%r", self.peer, reason)
        self.callbacks.dismiss(text)

    # -- waiting ---------------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Take no requests for now. Holds add up."""
        self._holds += 1
        self.is_held = True
        if self._holds == 1 and not self.is_closed:
            self.callbacks.pause()

    def let_go(self) -> None:
        """Take one hold back."""
        self._holds -= 1
        self.is_held = self._holds > 0
        if not self.is_held and not self.is_closed:
            self.callbacks.resume()

    def talk(self) -> None:
        """Have ``callbacks.write`` called at the end of this turn of the loop, once."""
        self._broker.talking(self.callbacks)

    # -- answers and jobs ------------------------------------------------------------------------------------------

    def error_of(self, error: Exception, what: str) -> tuple[Exception, bool]:
        """What the client is told of an exception that a request has raised; defects and refusals go to the log.

        Args:
            error: the exception.
            what: which request it was, for the log.

        Returns:
            The error to tell, and whether the connection has to end.
        """
        if isinstance(error, NotAuthorized):
            self.access.denied(error)
        if not isinstance(error, JdbcStoreError):
            log.error("defect in handling %s of %r", what, self, exc_info=error)
            return RuntimeError("internal error of the broker"), True
        return error, bool(getattr(error, "fatal", False))

    def _job_failed(self, request: object, error: Exception) -> None:
        told, is_fatal = self.error_of(error, "a job")
        self.complete(request, told, is_fatal=is_fatal)

    def work(self, job: Iterator[None], request: object, done: Callable[[], object]) -> None:
        """Do what may take long. The client is held before it is done; what goes wrong is told to it.

        Args:
            job: see `jdbcstore.broker.slices`.
            request: what the client asked for.
            done: called when it is done and nothing went wrong.
        """
        has_failed = False

        def told() -> Iterator[None]:
            nonlocal has_failed
            try:
                yield from job
            except Exception as error:  # noqa: BLE001  # whatever it is, it is told, and costs one client
                has_failed = True
                self._job_failed(request, error)

        def ended() -> None:
            self.let_go()
            if not has_failed:
                done()

        work = told()
        if not self._broker.slices.begin(work):
            self.hold()
            self._broker.slices.go_on(work, ended)
        elif not has_failed:
            done()

    def complete(self, request: object, error: BaseException | None = None, *, is_fatal: bool = False) -> None:
        """A request has taken effect, or has failed: tell the client, unless it is gone."""
        if (request is not None or error is not None) and self.phase is not Phase.CLOSED:
            self.callbacks.completed(request, error, is_fatal=is_fatal)

    def asked(self, size: int, count: int = 1) -> None:
        """So many bytes are on their way to the store, and so many answers are due; beyond the limit of bytes the
        client has to wait."""
        self._answers_due += count
        self._uncommitted_bytes += size
        self.memory.uncommitted += size
        if not self._is_over_uncommitted and self._uncommitted_bytes > self._uncommitted_bytes_max:
            self._is_over_uncommitted = True
            self.hold()

    def has_all_answers(self) -> bool:
        """Whether the store has answered everything that the client has asked for. If not, the client is held until it
        has."""
        if self._answers_due and not self._waits_for_answers:
            self._waits_for_answers = True
            self.hold()
        return not self._answers_due

    def answered(self, size: int, request: object, error: BaseException | None, seconds: float | None = None) -> None:
        """The store has answered.

        Args:
            size: bytes that were on their way until now.
            request: what is completed, if it is not None.
            error: why it is not done.
            seconds: how long a message or a commit took; None for what is not one.
        """
        if seconds is not None:
            self._broker.latencies.send.add(seconds)
        self._free(size)
        if request is not None or error is not None:
            self.complete(request, error)
        self._count_answers(1)

    def stored(self, size: int, requests: Sequence[object], seconds: float) -> None:
        """The store has several messages.

        Args:
            size: bytes of all that were on their way until now.
            requests: what is completed, for each; None for none.
            seconds: how long they took.
        """
        self._broker.latencies.send.add(seconds, len(requests))
        self._free(size)
        for request in requests:
            self.complete(request)
        self._count_answers(len(requests))

    def _free(self, size: int) -> None:
        """So many bytes are not on their way to the store any more."""
        self._uncommitted_bytes -= size
        self.memory.uncommitted -= size
        if self._is_over_uncommitted and self._uncommitted_bytes <= self._uncommitted_bytes_max // 2:
            self._is_over_uncommitted = False
            self.let_go()

    def _count_answers(self, count: int) -> None:
        self._answers_due -= count
        if not self._answers_due and self._waits_for_answers:
            self._waits_for_answers = False
            self.let_go()
        if not self._answers_due:
            if self.phase is Phase.LEAVING:
                self._said_goodbye()
            if self._has_heard_all is not None and not self.is_closed:
                self._has_heard_all()


@subject.register
def _subject(client: ClientRequests) -> str:
    return f"client {client.connection_id} {client.peer}"
