"""A commit over several stores, as ActiveMQ does it: prepared in each, its outcome written, committed in each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jdbcstore.errors import LeaseLost, OutcomeUnknown, StoreError, TransientStoreError
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Commit, MessageStore
from jdbcstore.store.journal.job_changes import ChosenJobs, DecidedJobs
from jdbcstore.store.journal.known import KnownDestination
from jdbcstore.store.journal.messages import JournalMessageStore
from jdbcstore.store.journal.mkahadb.child import Child
from jdbcstore.store.journal.mkahadb.steps import force_periodic, order_of, prepared_in_each, written
from jdbcstore.store.journal.mkahadb.store_host import StoreHost
from jdbcstore.store.journal.work import Acknowledge, Came, Decide, Meant, PrepareAll

__all__ = ["CommitOverSeveral"]


class CommitOverSeveral:
    """One commit.

    Args:
        host: all stores.
        commit: what is done.
        children: those that it concerns.
    """

    def __init__(self, host: StoreHost, commit: Commit, children: list[Child]) -> None:
        self._host = host
        self._commit = commit
        self._children = sorted(children, key=lambda one: one.directory)
        self._xid = host.new_xid()
        self._scheduling = host.scheduling_child() if commit.jobs else None
        self._chosen: ChosenJobs | None = None

    def submit(self) -> Completion[None]:
        """Number the messages and hand it over."""
        if self._scheduling is not None:
            self._chosen = ChosenJobs(self._scheduling.job_store().changes(self._commit.jobs))
        prepared: dict[Child, list[tuple[JournalMessageStore, Any, Any]]] = {child: [] for child in self._children}
        for store, message in self._commit.adds:
            own = self._of(store).own(store)
            prepared[self._of(store)].append((own, message, own.prepare(message, self._xid)))
        completion: Completion[None] = Completion()
        held = order_of(self._children)
        try:
            work = [(child, *self._parts(child, prepared[child])) for child in self._children]
        except BaseException:
            held.close()
            raise
        self._host.run(lambda: self._do(work), completion, held.close)
        return completion

    def _of(self, store: MessageStore) -> Child:
        return next(child for child in self._children if child is self._host.child_of(store.destination))

    def _parts(self, child: Child, prepared: Sequence[tuple[JournalMessageStore, Any, Any]]) -> tuple[Any, Any, Any]:
        adds = [own.add_of(message, made) for own, message, made in prepared if own.is_needed]
        # A second number, with which they become visible.
        numbers = []
        for own, message, _ in prepared:
            number = own.number(message)
            if own.is_needed:
                numbers.append(number)
        removed = [
            (child.own(store).known, Meant.of(one, child.format))
            for store, one in self._commit.removes
            if self._of(store) is child
        ]
        removes = [(known, one) for known, one in removed if not known.destination.is_topic]
        acknowledged: list[tuple[KnownDestination, str, Meant]] = []
        late: list[Acknowledge] = []
        new = {(own.destination, str(message.message_id)): message for own, message, _ in prepared}
        for store, key, one in self._commit.acknowledged:
            if self._of(store) is child:
                known, text = child.own_topic(store).known, child.format.subscription_text(key)
                message = new.get((store.destination, str(one)))
                if message is None:
                    acknowledged.append((known, text, Meant.of(one, child.format)))
                else:
                    late.append(Acknowledge(known, text, [Meant.of(message.message_id, child.format)]))
        acknowledged += [  # for everybody
            (known, text, one) for known, one in removed if known.destination.is_topic for text in known.subscriptions
        ]
        came = [Came(str(producer), last, None) for producer, last in self._commit.producers.items()]
        prepare: list[Any] = []
        decide: list[Any] = []
        if prepared or removes or acknowledged or late or child is not self._scheduling:
            prepare.append(PrepareAll(self._xid, adds, removes, acknowledged, child.wire_version))
            decide.append(Decide(self._xid, numbers, commits=True))
        if child is self._scheduling:
            prepare.append(self._chosen)
        return prepare, [*decide, *(came if child is self._children[0] else ())], late

    def _do(self, work: list[tuple[Child, Any, Any, Any]]) -> None:
        for earlier in self._commit.follows:
            if (error := earlier.exception()) is not None:
                raise TransientStoreError(f"not stored, because what it follows was not: {error}")
        prepared_in_each(self._xid, [(child, prepare) for child, prepare, _, _ in work])
        scheduled = [] if self._chosen is None else self._chosen.commands
        self._host.decided(self._xid, scheduled)
        try:
            for child, _, decide, late in work:
                written(child, [*decide, DecidedJobs(scheduled)] if child is self._scheduling else decide)
                if late:  # of what is added with it; a crash in between delivers it again
                    written(child, late)
            force_periodic([child for child, *_ in work])  # before it says that nobody needs the outcome any more
        except (StoreError, LeaseLost) as error:
            raise OutcomeUnknown(f"committed, and not done in all stores before the next start: {error}") from error
        self._host.done(self._xid)
