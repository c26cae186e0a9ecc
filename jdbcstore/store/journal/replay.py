"""From the records of a journal to the state that a broker would have.

Each command is applied at its place, those of a transaction at the place of its commit, in their own order. So a
message's place in its destination is that of its commit, not that of its record.

A broker that has lost its index does the same, with one difference: it leaves out what stands behind the marker of an
ack compaction (`RewrittenDataFile`) while the copied file still exists. The copies may be left out, but after a restart
brokers write new messages behind them, and these are lost. Here nothing is left out. To apply a copy is to do nothing,
for the original was applied before; whatever behind a marker does change something is what the broker would lose. It
is told in `State.lost_by_broker`.

A compaction copies acknowledgements and commits, but of a transaction whose acknowledgements and commit stand in two
files only what stands in the one that is copied. When that file is gone, a rebuild meets the commit first and the
acknowledgements after it, and forgets them: the messages are there again. Here a copy that belongs to a transaction
that was committed before is applied at once. If even the commit is gone, nobody can tell it from a rollback.

A commit that is copied comes behind what was sent, acknowledged, removed and subscribed to after it. Here what it sends
has the place, and is for the subscriptions, of the file that was copied.

The rules were read in ActiveMQ 5.17 and compared with what it finds in its own directories.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, TypeAlias

from jdbcstore.destination import Destination
from jdbcstore.identifiers import TransactionId, XATransactionId
from jdbcstore.store.journal.commands import (
    AddMessage,
    Commit,
    Prepare,
    RemoveDestination,
    RemoveMessage,
    RewrittenDataFile,
    Rollback,
    Subscription,
    UpdateMessage,
)
from jdbcstore.store.journal.records import DAMAGES_MAX, AnyJournal, Location, Record
from jdbcstore.store.journal.sequences import SequenceSet
from jdbcstore.store.journal.state import (
    Acknowledgement,
    LastAck,
    LostByBroker,
    State,
    StoredDestination,
    StoredMessage,
    StoredSubscription,
    StoredTransaction,
    Tier,
)

__all__ = ["Replay", "replay"]

_Operation: TypeAlias = tuple[Location, AddMessage | RemoveMessage]
_Acknowledgement: TypeAlias = tuple[Location, Destination, str | None]

#: What an ack compaction copies.
_COPIED: Final = (RemoveMessage, Commit)

#: The last ack of a retroactive subscription.
_NOT_ACKED: Final = -1


#: Format id of the transactions that mKahaDB makes of local ones.
_LOCAL_AS_XA: Final = 61616


def replay(journal: AnyJournal, tx_store: AnyJournal | None = None) -> State:
    """Read a journal from its first record to its last.

    Args:
        journal: the store's.
        tx_store: of one of several stores (mKahaDB) the journal in ``txStore`` next to it. It tells how local
            transactions over several stores ended that are prepared here; with damage in it they stay in doubt.

    Returns:
        What a broker would know. Everything that was wrong with the journal is in `State.damages`.

    Raises:
        StoreError: a file cannot be read.
    """
    progress = Replay(journal.files)
    progress.apply(journal.records())
    if tx_store is not None:
        progress.decide(tx_store)
    state = progress.finish()
    state.damages = sorted([*journal.damages, *state.damages])
    state.damages_unlisted += journal.damages_unlisted
    return state


class Replay:
    """A replay under way. Records are handed in in the order of their locations, each once.

    Args:
        files: numbers of the journal files that exist.
    """

    def __init__(self, files: Collection[int]) -> None:
        self.state: Final = State()
        self._files = files
        #: Operations of transactions that have not ended.
        self._begun: dict[TransactionId, list[_Operation]] = {}
        self._prepared: dict[TransactionId, tuple[Location, list[_Operation]]] = {}
        #: By file: the marker behind which a broker would not read.
        self._markers: dict[int, LostByBroker] = {}
        #: Where the copies of a compaction begin, while they are read; they end with any other command.
        self._copying: tuple[Location, int] | None = None
        #: Copied acknowledgements of transactions whose end was not read, and the file that they were copied from.
        self._copied: dict[TransactionId, list[tuple[Location, RemoveMessage, int]]] = {}
        #: Messages of transactions that have not ended, by id, and their acknowledgements so far: the commit stood in
        #: front of these, and was copied behind them.
        self._early: dict[str, tuple[_Acknowledgement, ...]] = {}
        #: Hashes of all transactions that were committed, since there may be millions, and of those rolled back.
        self._committed: set[int] = set()
        self._rolled_back: set[int] = set()
        self._committing: Location | None = None
        self._last_order = -1
        #: The same of what copied commits have made visible.
        self._last_copied_order = -1
        #: The last file in which a destination was removed.
        self._removed: dict[Destination, int] = {}
        self._handlers: dict[type, Callable[[Location, Any], None]] = {
            AddMessage: self._add,
            RemoveMessage: self._remove,
            UpdateMessage: self._update,
            Commit: self._commit,
            Prepare: self._prepare,
            Rollback: self._roll_back,
            RemoveDestination: self._remove_destination,
            Subscription: self._subscription,
            RewrittenDataFile: self._rewritten,
        }

    def apply(self, records: Iterable[Record]) -> None:
        """Apply records. Commands that do not concern messages do nothing."""
        handlers = self._handlers.get
        for location, command in records:
            cls = type(command)
            if self._copying is not None and (cls not in _COPIED or location.file != self._copying[0].file):
                if location.file == self._copying[0].file and location.file in self._markers:
                    self.state.skipped_files.add(location.file)
                self._copying = None
            handler = handlers(cls)
            if handler is not None:
                handler(location, command)

    def decide(self, tx_store: AnyJournal) -> None:
        """End the prepared transactions that were local ones: the others' common store says which are committed."""
        outcomes: set[TransactionId] = set()
        for _, command in tx_store.records():
            if isinstance(command, Prepare) and command.transaction is not None:
                outcomes.add(command.transaction)
            elif isinstance(command, Commit) and command.transaction is not None:
                outcomes.discard(command.transaction)
        if tx_store.damages:
            return
        self._copying = None
        for transaction in list(self._prepared):
            if isinstance(transaction, XATransactionId) and transaction.format_id == _LOCAL_AS_XA:
                _, operations = self._prepared.pop(transaction)
                if transaction in outcomes:
                    self._execute(operations)

    def finish(self) -> State:
        """What is known after the last record."""
        state = self.state
        state.prepared = {key: _listed(key, operations, where) for key, (where, operations) in self._prepared.items()}
        state.unfinished = {key: _listed(key, operations) for key, operations in self._begun.items()}
        state.perhaps_acknowledged = [
            (acknowledged[0], acknowledged[1])
            for copies in self._copied.values()
            for _, remove, source in copies
            if (acknowledged := self._copy_of(remove, source)) is not None
        ]
        for lost in self._markers.values():
            # What was sent and acknowledged behind the marker is gone in either way.
            sent = set(lost.messages)
            lost.acknowledged = [ack for ack in lost.acknowledged if ack not in sent]
            lost.messages = [(where, id) for where, id in lost.messages if self._is_stored(where, id)]
        state.lost_by_broker = [
            lost for lost in self._markers.values() if lost.messages or lost.acknowledged or lost.others
        ]
        return state

    def _is_stored(self, destination: Destination, message_id: str) -> bool:
        stored = self.state.destinations.get(destination)
        return stored is not None and stored.get(message_id) is not None

    # -- messages ------------------------------------------------------------------------------------------------

    def _add(self, location: Location, add: AddMessage) -> None:
        transaction, destination, message_id, message, priority, priority_supported = add
        if destination is None or message_id is None or message is None:
            self._damaged(location, "a message without destination, id or content")
            return
        stored = self.state.destinations.get(destination)
        if stored is None:
            # Also if its transaction is never committed.
            stored = self._destination(destination)
        if transaction is not None:
            # The content would take memory until the commit, and is not needed then.
            add = AddMessage(None, destination, message_id, None, priority, priority_supported)
            self._early[message_id] = ()
            self._begun.setdefault(transaction, []).append((location, add))
            return
        self._store(stored, location, message_id, Tier.DEFAULT if not priority_supported else Tier.of(priority))

    def _store(self, stored: StoredDestination, location: Location, message_id: str, tier: Tier) -> None:
        subscriptions: Collection[StoredSubscription] = stored.subscriptions.values()
        if self._copying is not None:
            subscriptions = self._were_there(subscriptions, self._copying[1])
        if not subscriptions and stored.destination.is_topic:
            return  # nobody waits for it
        # A duplicate takes a number, too.
        sequence = stored.next_sequence
        stored.next_sequence = sequence + 1
        if stored.get(message_id) is not None:
            return
        if len(subscriptions) < len(stored.subscriptions):
            for subscription in stored.subscriptions.values():
                subscription.pending.remove(sequence)  # the one behind its last
        stored.put(StoredMessage(message_id, sequence, location, tier, self._order(self._committing or location)))
        for subscription in subscriptions:
            subscription.pending.add(sequence, sequence + 1)
        if self._markers:
            lost = self._lost(location)
            if lost is not None:
                lost.messages.append((stored.destination, message_id))

    @staticmethod
    def _were_there(subscriptions: Iterable[StoredSubscription], source: int) -> list[StoredSubscription]:
        """Those that a commit in this file was for."""
        return [one for one in subscriptions if one.began_in <= source or one.retroactive]

    def _order(self, at: Location) -> int:
        """The place of a message that becomes visible here, among all of them."""
        if self._copying is not None:
            self._misplaced()
            self._last_copied_order = max((self._copying[1] << 32) + at.offset, self._last_copied_order + 1)
            return self._last_copied_order
        self._last_order = max((at.file << 32) + at.offset, self._last_order + 1)
        return self._last_order

    def _misplaced(self) -> None:
        assert self._copying is not None
        if self._copying[1] not in self._files:
            self.state.misplaced_files.add(self._copying[0].file)

    def _update(self, location: Location, update: UpdateMessage) -> None:
        add = update.message
        if add is None or add.destination is None or add.message_id is None or add.message is None:
            self._damaged(location, "an update without message")
            return
        stored = self._destination(add.destination)
        tier = Tier.of(add.priority) if add.priority_supported else Tier.DEFAULT
        message = stored.get(add.message_id)
        if message is None:
            self._store(stored, location, add.message_id, tier)
            return
        self._need(location, message.location.file)
        # Its place, and who has acknowledged it, are told by the older record.
        self._need(message.location, location.file)
        stored.put(message._replace(location=location, tier=tier))
        self._changed(location)

    def _remove(self, location: Location, remove: RemoveMessage) -> None:
        transaction, destination, message_id, _, subscription_key = remove
        if destination is None or message_id is None:
            self._damaged(location, "an acknowledgement without destination or message id")
        elif subscription_key is not None and destination.is_queue:
            self._damaged(location, "an acknowledgement of a durable subscription to a queue")
        elif transaction is None:
            if self._copying is None or not self._is_newer(remove, self._copying[1]):
                self._acknowledge(location, destination, message_id, subscription_key)
        elif self._copying is None:
            self._begun.setdefault(transaction, []).append((location, remove))
        elif hash(transaction) in self._committed:
            if self._acknowledge_copy(location, remove, self._copying[1]):
                self._misplaced()
                self.state.revived_by_broker.append((destination, message_id))
        elif hash(transaction) not in self._rolled_back:
            self._copied.setdefault(transaction, []).append((location, remove, self._copying[1]))

    def _is_newer(self, remove: RemoveMessage, source: int) -> bool:
        """Whether a message, or who acknowledged it, came behind the file that the acknowledgement was copied from."""
        assert remove.destination is not None
        assert remove.message_id is not None
        stored = self.state.destinations.get(remove.destination)
        if stored is None:
            return False
        if remove.subscription_key is not None:
            subscription = stored.subscriptions.get(remove.subscription_key)
            return subscription is not None and subscription.began_in > source
        message = stored.get(remove.message_id)
        return message is not None and message.location.file > source

    def _acknowledge_copy(self, location: Location, remove: RemoveMessage, source: int) -> bool:
        acknowledged = self._copy_of(remove, source)
        if acknowledged is not None:
            self._acknowledge(location, *acknowledged)
        return acknowledged is not None

    def _copy_of(self, remove: RemoveMessage, source: int) -> tuple[Destination, str, str | None] | None:
        """What a copied acknowledgement would do, if it does something."""
        destination, message_id, key = remove.destination, remove.message_id, remove.subscription_key
        stored = None if destination is None else self.state.destinations.get(destination)
        message = None if stored is None or message_id is None else stored.get(message_id)
        # A message of this id that was stored later is not meant.
        if stored is None or message is None or message.location.file > source:
            return None
        if key is not None and (
            (subscription := stored.subscriptions.get(key)) is None
            or subscription.began_in > source
            or message.sequence not in subscription.pending
        ):
            return None
        return stored.destination, message.message_id, key

    def _acknowledge(
        self, location: Location, destination: Destination, message_id: str, subscription_key: str | None
    ) -> None:
        stored = self._destination(destination)
        message = stored.remove(message_id) if subscription_key is None else stored.get(message_id)
        if message is None:
            if message_id in self._early:
                self._early[message_id] += ((location, destination, subscription_key),)
            return
        if subscription_key is not None:
            subscription = stored.subscriptions.get(subscription_key)
            if subscription is not None:
                subscription.last_ack = LastAck(message.sequence, message.tier)
                subscription.pending.remove(message.sequence)
                stored.remove_unless_pending(message.sequence)
        self._refer(location, message.location)
        if self._markers:
            lost = self._lost(location)
            if lost is not None:
                lost.acknowledged.append((destination, message_id))

    # -- transactions --------------------------------------------------------------------------------------------

    def _commit(self, location: Location, commit: Commit) -> None:
        operations = self._ended(location, commit.transaction)
        self._committing = location
        self._execute(operations)
        self._committing = None
        for where, _ in operations:
            self._refer(location, where)
        if commit.transaction is not None:
            self._committed.add(hash(commit.transaction))
            for where, remove, source in self._copied.pop(commit.transaction, ()):
                self._acknowledge_copy(where, remove, source)
                self._refer(location, where)

    def _execute(self, operations: list[_Operation]) -> None:
        for where, operation in operations:
            destination, message_id = operation.destination, operation.message_id
            assert destination is not None
            assert message_id is not None
            if isinstance(operation, RemoveMessage):
                self._acknowledge(where, destination, message_id, operation.subscription_key)
            else:
                stored = self.state.destinations.get(destination)
                if stored is None:
                    pass  # it was removed meanwhile
                elif self._is_removed(destination):
                    self._misplaced()
                    self.state.revived_by_broker.append((destination, message_id))
                    self._early.pop(message_id, None)
                else:
                    tier = Tier.of(operation.priority) if operation.priority_supported else Tier.DEFAULT
                    self._store(stored, where, message_id, tier)
                for acknowledgement in self._early.pop(message_id, ()):
                    self._acknowledge_early(message_id, *acknowledgement)

    def _is_removed(self, destination: Destination) -> bool:
        """Whether a destination was removed behind the commit that has been copied, and has come again since."""
        return self._copying is not None and self._removed.get(destination, 0) > self._copying[1]

    def _acknowledge_early(self, message_id: str, where: Location, destination: Destination, key: str | None) -> None:
        """An acknowledgement stands before the commit of its message, because this is a copy."""
        if self._copying is not None and where.file > self._copying[1]:
            self._acknowledge(where, destination, message_id, key)
            self.state.revived_by_broker.append((destination, message_id))

    def _prepare(self, location: Location, prepare: Prepare) -> None:
        if prepare.transaction is None:
            self._damaged(location, "a prepare without transaction")
            return
        operations = self._begun.pop(prepare.transaction, None)
        if operations is not None:
            self._prepared[prepare.transaction] = location, operations
            for where, _ in operations:
                self._refer(location, where)

    def _roll_back(self, location: Location, rollback: Rollback) -> None:
        operations = self._ended(location, rollback.transaction)
        for _, operation in operations:
            self._early.pop(operation.message_id or "", None)
        self._rolled_back.add(hash(rollback.transaction))
        if isinstance(rollback.transaction, XATransactionId):
            for where, _ in operations:
                self._refer(location, where)

    def _ended(self, location: Location, transaction: TransactionId | None) -> list[_Operation]:
        if transaction is None:
            self._damaged(location, "the end of a transaction without its id")
            return []
        # An unknown one did nothing that is kept.
        operations = self._begun.pop(transaction, None)
        return self._prepared.pop(transaction, (location, []))[1] if operations is None else operations

    # -- destinations and subscriptions --------------------------------------------------------------------------

    def _destination(self, destination: Destination) -> StoredDestination:
        stored = self.state.destinations.get(destination)
        if stored is None:
            stored = self.state.destinations[destination] = StoredDestination(destination)
        return stored

    def _remove_destination(self, location: Location, remove: RemoveDestination) -> None:
        if remove.destination is None:
            self._damaged(location, "a removal of no destination")
        elif (stored := self.state.destinations.pop(remove.destination, None)) is not None:
            self._changed(location)
            self._need_all(location, stored)
            self._removed[remove.destination] = location.file

    def _subscription(self, location: Location, command: Subscription) -> None:
        destination, key, retroactive, info = command
        if destination is None or key is None or destination.is_queue:
            self._damaged(location, "a durable subscription without key or to no topic")
            return
        stored = self._destination(destination)
        self._changed(location)
        if info is None:
            self._unsubscribe(location, stored, key)
            return
        known = stored.subscriptions.get(key)
        if known is not None:
            self._need(location, known.location.file)
        # Whoever changes a subscription in place keeps what waits for him.
        pending = SequenceSet() if known is None else known.pending
        last_ack = LastAck(stored.next_sequence - 1, Tier.LOW)
        if retroactive:
            last_ack = LastAck(_NOT_ACKED, Tier.LOW)
            for other in stored.subscriptions.values():
                pending.update(other.pending)
                # Without it nobody would wait for these messages when they are sent.
                self._need(other.location, *{message.location.file for message in stored.all()})
        began_in = location.file if known is None else known.began_in
        stored.subscriptions[key] = StoredSubscription(key, location, retroactive, info, last_ack, pending, began_in)

    def _unsubscribe(self, location: Location, stored: StoredDestination, key: str) -> None:
        subscription = stored.subscriptions.pop(key, None)
        if subscription is not None:
            self._need(location, subscription.location.file)
        if not stored.subscriptions:
            # With its last subscription a topic goes.
            self._need_all(location, stored)
            del self.state.destinations[stored.destination]
        elif subscription is not None:
            pending = subscription.pending
            self._need(location, *{one.location.file for one in stored.all() if one.sequence in pending})
            for sequence in subscription.pending:
                stored.remove_unless_pending(sequence)

    # -- files ---------------------------------------------------------------------------------------------------

    def _rewritten(self, location: Location, marker: RewrittenDataFile) -> None:
        self._copying = location, marker.source
        self._last_copied_order = -1
        self.state.rewritten_files.add(location.file)
        if marker.skip_if_source_exists and marker.source in self._files and location.file not in self._markers:
            self._markers[location.file] = LostByBroker(location, marker.source)

    def _lost(self, location: Location) -> LostByBroker | None:
        """Where to note that a broker would not make the change that a record at this location makes."""
        lost = self._markers.get(location.file)
        if lost is None and self._committing is not None:
            lost = self._markers.get(self._committing.file)
        return lost

    def _changed(self, location: Location) -> None:
        lost = self._lost(location)
        if lost is not None:
            lost.others += 1

    def _refer(self, ack: Location, message: Location) -> None:
        files = self.state.ack_files.get(ack.file)
        if files is None:
            files = self.state.ack_files[ack.file] = set()
        files.add(message.file)

    def _need(self, location: Location, *files: int) -> None:
        """What a record has ended would be there again without it."""
        self.state.needed_files.setdefault(location.file, set()).update(files)

    def _need_all(self, location: Location, stored: StoredDestination) -> None:
        self._need(location, *{message.location.file for message in stored.all()})
        self._need(location, *(subscription.location.file for subscription in stored.subscriptions.values()))

    def _damaged(self, location: Location, what: str) -> None:
        if len(self.state.damages) < DAMAGES_MAX:
            self.state.damages.append(location.damage(what))
        else:
            self.state.damages_unlisted += 1


def _listed(
    transaction: TransactionId, operations: list[_Operation], prepared_at: Location | None = None
) -> StoredTransaction:
    listed = StoredTransaction(transaction, prepared_at=prepared_at)
    for location, operation in operations:
        assert operation.destination is not None
        assert operation.message_id is not None
        if isinstance(operation, RemoveMessage):
            listed.acknowledged.append(
                Acknowledgement(operation.destination, operation.message_id, operation.subscription_key)
            )
            listed.acknowledged_at.append(location)
        else:
            listed.added.append((operation.destination, operation.message_id, location))
    return listed
