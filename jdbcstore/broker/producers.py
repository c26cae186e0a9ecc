"""Producers that number their messages themselves: what one sends again, because it heard no answer, is stored once.

**Theory.** A producer sends its messages in the order of their numbers, over one connection at a time. When it connects
anew it sends everything again that it has no answer for, in the same order, before anything new. So whatever is read
from its connections, old and new, and however it mixes: a number comes after all lower ones have come. Therefore one
number for each producer, the highest that is stored, tells everything: what is not higher is stored already.

Java's client breaks the order: with ``trackMessages``, if more is without an answer than its cache holds, the end comes
first, and then the rest, which would be taken for stored. So what a client that does not send again what has failed has
left out last is remembered, and it hears an error if that comes.

The store writes that number in the same commit as the message (`PersistenceAdapter.commit_together`), so it is true at
any time, also when the message was consumed since, and for the next master. Here it is kept for as long as the producer
is at work, with what is on its way to the store:

======================= ===========================================================================================
the number is           then
======================= ===========================================================================================
not above the highest   it is a duplicate: answered as if it were stored now
on its way              likewise, when the first copy is stored; if that fails, this one fails, too
above all others        it is new
below one on its way,   the order is broken; an ERROR says so
but not on its way, or
left out by JMS clients
======================= ===========================================================================================

**Failures.** When a message fails while later ones succeed, the highest number lies: the message would be taken for
stored when it comes again. So nothing may be stored behind a hole:

1. each write follows the producer's last one in the store (``follows``): when that fails, it fails, too;
2. a connection that was told an ERROR for a number hears ERRORs for all higher ones until it has sent again what
   failed, the lowest number first (`Numbering`); who does not want to, connects anew, and leaves a gap;
3. a producer's higher numbers must not overtake those that wait in an open transaction.

After any failure the number is read from the store again, when nothing is on its way any more: the outcome may have
been unknown.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from jdbcstore.broker.delivery import Answer, Delivery
from jdbcstore.broker.prepared import Prepared
from jdbcstore.broker.region_host import RegionHost
from jdbcstore.broker.route import Route
from jdbcstore.broker.topic import Publisher
from jdbcstore.errors import ProtocolError
from jdbcstore.identifiers import ProducerId
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Commit

__all__ = ["Number", "Numbering", "Producers"]

log = logging.getLogger(__name__)

#: A producer and one of its numbers: what names a message.
Number: TypeAlias = tuple[ProducerId, int]

#: A producer that has sent nothing for so long is read from the store again when it comes back.
_IDLE_S: Final = 600.0
#: Of those that are known more than so many make room for others likewise: some 10 MiB. There may be more as long as
#: they have something on its way or in an open transaction, which is counted as that.
_KNOWN_MAX: Final = 20_000
#: Refused messages of one producer that a connection may owe us, and those of all its producers: a transaction of ten
#: thousand fails at once.
_MISSING_MAX: Final = 10_000
_MISSING_TOTAL_MAX: Final = 20_000
#: How many ranges of numbers that a producer has left out are remembered, the latest ones.
_LEFT_OUT_MAX: Final = 8


class _Known:
    """A producer at work: its highest stored number, and the writes of what is on its way, by number."""

    __slots__ = ("in_doubt", "last_used_s", "left_out", "pending", "producer_id", "stored")

    def __init__(self, producer_id: ProducerId, stored: int) -> None:
        self.producer_id = producer_id
        self.stored = stored
        self.pending: dict[int, Completion[Any]] = {}
        #: A write of it has failed: `stored` has to be read again as soon as nothing is pending.
        self.in_doubt = False
        self.last_used_s = 0.0
        #: Ranges of numbers that have not come when higher ones came.
        self.left_out: tuple[range, ...] = ()

    @property
    def last_pending(self) -> int:
        """The highest number on its way, 0 if none is."""
        return next(reversed(self.pending)) if self.pending else 0

    def has(self, number: int) -> bool:
        """Whether a number that is not above all others is stored, or on its way."""
        is_left_out = any(number in numbers for numbers in self.left_out)
        return not is_left_out and (number <= self.stored or number in self.pending)


class Producers:
    """All producers that number their messages, as far as they are at work.

    Args:
        broker: gives the store, the loop, and does the work.
    """

    def __init__(self, broker: RegionHost) -> None:
        self._broker = broker
        self._known: dict[ProducerId, _Known] = {}
        self._asking: dict[ProducerId, list[Callable[[BaseException | None], object]]] = {}
        #: In how many open transactions a producer has messages.
        self._held: dict[ProducerId, int] = {}
        #: How many messages were not stored because they were already.
        self.duplicates = 0

    def knows(self, producer_id: ProducerId) -> bool:
        """Whether `commit` may be called for this producer; if not, `learn` first."""
        known = self._known.get(producer_id)
        return known is not None and not known.in_doubt

    def is_last(self, number: Number) -> bool:
        """Whether a number is the highest one that is stored of a producer that is known."""
        return self._known[number[0]].stored == number[1]

    def told(self, producer_id: ProducerId) -> int:
        """What `learn` has found of what is no producer, -1 if nothing; it is asked for again the next time."""
        return self._known.pop(producer_id).stored

    def introduce(self, producer_id: ProducerId) -> None:
        """Take note of a producer that has sent nothing yet, so that nobody has to ask about it."""
        if producer_id not in self._known and producer_id not in self._asking:
            self._know(producer_id, -1)

    def _know(self, producer_id: ProducerId, stored: int) -> None:
        self._make_room()
        known = self._known[producer_id] = _Known(producer_id, stored)
        known.last_used_s = self._broker.loop.time()

    def learn(self, producer_id: ProducerId, then: Callable[[BaseException | None], object]) -> None:
        """Find out in the store how far a producer has come, then call ``then(error)``, never before this returns."""
        waiting = self._asking.get(producer_id)
        if waiting is not None:
            waiting.append(then)
            return
        self._asking[producer_id] = [then]
        if producer_id not in self._known:  # else as soon as the last of its writes is answered
            self._ask(producer_id)

    def _ask(self, producer_id: ProducerId) -> None:
        reading = self._broker.read_patiently(self._broker.adapter.last_producer_sequence_id, producer_id)
        reading.add_done_callback(partial(self._told, producer_id, self._asking[producer_id]))

    def _told(
        self,
        producer_id: ProducerId,
        waiting: list[Callable[[BaseException | None], object]],
        reading: asyncio.Future[int],
    ) -> None:
        if self._asking.get(producer_id) is not waiting or reading.cancelled():
            return  # forgotten since
        del self._asking[producer_id]
        error = reading.exception()
        if error is None:
            self._know(producer_id, reading.result())
        for then in waiting:
            try:
                then(error)
            except Exception:  # the others wait, too
                log.exception("defect in answering a producer %s", producer_id)

    def _make_room(self) -> None:
        """Let go of those that have been known longest: two for each that comes, so that it comes to an end.

        Not of those that a transaction needs: its commit has to know all of them at once, and would ask for ever if
        each that is learned took the place of another one.
        """
        for _ in range(2):
            if len(self._known) < _KNOWN_MAX:
                return
            producer_id, known = next(iter(self._known.items()))
            del self._known[producer_id]
            if known.pending or producer_id in self._held:
                self._known[producer_id] = known  # behind all others

    def hold(self, producer_id: ProducerId) -> None:
        """A transaction has a first message of a producer, who does not make room for others until `release`."""
        self._held[producer_id] = self._held.get(producer_id, 0) + 1

    def release(self, producer_ids: Iterable[ProducerId]) -> None:
        """A transaction needs its producers no more."""
        for producer_id in producer_ids:
            count = self._held.pop(producer_id) - 1
            if count:
                self._held[producer_id] = count

    def commit(
        self,
        routes: Sequence[Route],
        acknowledged: Sequence[Delivery],
        publisher: Publisher,
        answer: Answer,
        numbered: Collection[ProducerId],
        prepared: Prepared | None = None,
        *,
        is_strict: bool = True,
    ) -> BaseException | None:
        """As `Broker.commit`, but without those messages that are stored already, or on their way to be.

        Args:
            routes: where messages go; those of a `numbered` producer in the order of their numbers.
            acknowledged, publisher, answer, prepared: as there.
            numbered: the producers, all of them known, whose numbers count.
            is_strict: as `Numbering.is_strict`. If not, what is left out is remembered, and their numbers need not be
                when their messages are gone: a store that cannot do that knows those that it has.

        Returns:
            Why it is refused at once; nothing was tried then, and `answer` is not called.
        """
        fresh: list[Route] = []
        numbers: dict[_Known, list[int]] = {}
        left_out: dict[_Known, tuple[range, ...]] = {}
        follows: dict[Completion[Any], None] = {}
        for route in routes:
            message_id = route.message.message_id
            if message_id is None or message_id.producer_id is None or message_id.producer_id not in numbered:
                fresh.append(route)
                continue
            known, number = self._known[message_id.producer_id], message_id.producer_sequence_id
            if number > (last := max(known.stored, known.last_pending)):
                fresh.append(route)
                its_numbers = numbers.setdefault(known, [])
                last = its_numbers[-1] if its_numbers else last
                if number > last + 1 and not is_strict:
                    left_out[known] = (*left_out.get(known, known.left_out), range(last + 1, number))[-_LEFT_OUT_MAX:]
                its_numbers.append(number)
                if known.pending:
                    follows[known.pending[known.last_pending]] = None
            elif not known.has(number):
                return _disorder(message_id.producer_id, number, last)
            else:
                self.duplicates += 1
                if number > known.stored:
                    follows[known.pending[number]] = None
        if not (fresh or acknowledged or follows):
            answer(None)
            return None

        refusal: BaseException | None = None
        is_submitted = False

        def answered(error: BaseException | None) -> None:
            nonlocal refusal
            if error is not None and not is_submitted:
                refusal = error
                return
            try:
                for known, its_numbers in numbers.items():
                    self._settle(known, its_numbers, error)
            finally:
                answer(error)

        marks: dict[ProducerId, int] = {}
        if is_strict or self._broker.adapter.remembers_producers:
            marks = {known.producer_id: its_numbers[-1] for known, its_numbers in numbers.items()}
        completion = self._broker.commit(
            fresh, acknowledged, publisher, answered, Commit(producers=marks, follows=list(follows)), prepared
        )
        is_submitted = True
        for known, ranges in left_out.items():
            known.left_out = ranges
        if completion is not None:
            for known, its_numbers in numbers.items():
                known.pending.update(dict.fromkeys(its_numbers, completion))
        return refusal

    def _settle(self, known: _Known, numbers: Sequence[int], error: BaseException | None) -> None:
        for number in numbers:
            known.pending.pop(number, None)
        if error is None:
            known.stored = max(known.stored, numbers[-1])
            known.last_used_s = self._broker.loop.time()
            return
        known.in_doubt = True
        producer_id = known.producer_id
        if not known.pending and self._known.get(producer_id) is known:
            del self._known[producer_id]
            if producer_id in self._asking:
                self._ask(producer_id)

    def sweeping(self) -> Iterator[None]:
        """Let go of who is not at work; a job, begun now and then."""
        limit_s = self._broker.loop.time() - _IDLE_S
        for producer_id, known in list(self._known.items()):
            if not known.pending and known.last_used_s < limit_s and self._known.get(producer_id) is known:
                del self._known[producer_id]
            yield

    def forget(self) -> None:
        """Everything may have changed in the store: somebody else may have been master."""
        self._known.clear()
        self._asking.clear()


class Numbering:
    """What the producers of one connection may send next (rules 2 and 3 of the theory).

    Attributes:
        is_strict: whether the client sends again what has failed. If it does not, because its application has heard of
            the failure and decides, nothing is missing after it.
    """

    __slots__ = ("_count", "_missing", "is_strict")

    def __init__(self) -> None:
        self.is_strict = True
        #: What failed and did not come again, in order, and how much it is.
        self._missing: dict[ProducerId, list[int]] = {}
        self._count = 0

    def check(self, number: Number) -> None:
        """A message comes, whatever becomes of it.

        Raises:
            ProtocolError: too many are missing, and this is none of them. Fatal: the client seems not to listen.
        """
        if self._count >= _MISSING_TOTAL_MAX:
            producer_id, sequence = number
            missing = self._missing.get(producer_id, [])
            place = bisect_left(missing, sequence)
            if missing[place : place + 1] != [sequence]:
                raise ProtocolError(
                    f"Producer {_name(producer_id)} goes on although {self._count} messages of this connection failed",
                    fatal=True,
                )

    def admit(self, number: Number) -> None:
        """A message comes.

        Raises:
            ProtocolError: it may not, because a lower one is missing. Fatal when the client seems not to listen.
        """
        producer_id, sequence = number
        missing = self._missing.get(producer_id)
        if missing is None or sequence < missing[0]:
            return
        if sequence > missing[0]:
            if len(missing) >= _MISSING_MAX:
                raise ProtocolError(
                    f"Producer {_name(producer_id)} goes on although {len(missing)} of its messages failed", fatal=True
                )
            raise ProtocolError(
                f"Message {sequence} of producer {_name(producer_id)} is not stored because message {missing[0]}"
                " failed: send that one again first, or connect anew to leave it out"
            )
        del missing[0]
        self._count -= 1
        if not missing:
            del self._missing[producer_id]

    def refused(self, number: Number) -> None:
        """The client hears an ERROR for a message."""
        if not self.is_strict:
            return
        producer_id, sequence = number
        missing = self._missing.setdefault(producer_id, [])
        place = bisect_left(missing, sequence)
        if missing[place : place + 1] != [sequence]:
            missing.insert(place, sequence)
            self._count += 1

    def forgiven(self, number: Number) -> None:
        """The client has given a message up."""
        producer_id, sequence = number
        missing = self._missing.get(producer_id, [])
        place = bisect_left(missing, sequence)
        if missing[place : place + 1] == [sequence]:
            del missing[place]
            self._count -= 1
            if not missing:
                del self._missing[producer_id]


def _disorder(producer_id: ProducerId, number: int, last: int) -> ProtocolError:
    return ProtocolError(
        f"Message {number} of producer {_name(producer_id)} comes after message {last}: the numbers of a producer grow,"
        " and what is sent again is sent in the same order"
    )


def _name(producer_id: ProducerId) -> str:
    return (producer_id.connection_id or "").removeprefix("ID:")
