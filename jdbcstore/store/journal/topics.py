"""The messages of one topic and the durable subscriptions to it, in the form that brokers give them in the journal.

A message is stored once. What a subscription has not acknowledged is in the index, one row for each message; the last
acknowledgement takes the message away, so nothing is left to clean up. With its last subscription a topic goes.
"""

from __future__ import annotations

from jdbcstore.errors import CodecError, ConfigurationError, StoreError
from jdbcstore.identifiers import MessageId
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Cursor, Page, TopicMessageStore
from jdbcstore.store.journal.index import PageRow
from jdbcstore.store.journal.known import KnownSubscription, info_bytes
from jdbcstore.store.journal.messages import JournalMessageStore
from jdbcstore.store.journal.work import Acknowledge, Forget, Meant, Subscribe, Unsubscribe
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey

__all__ = ["JournalTopicMessageStore"]


class JournalTopicMessageStore(JournalMessageStore, TopicMessageStore):
    """One topic. Created by the adapter only."""

    @property
    def is_needed(self) -> bool:
        return bool(self.known.asked)

    # -- subscriptions -------------------------------------------------------------------------------------------

    def add_subscription(self, info: SubscriptionInfo, *, retroactive: bool = False) -> Completion[None]:
        adapter, known = self._adapter, self.known
        adapter.opened()
        text, data = self._checked(info)
        with adapter.order:
            if known.asked.get(info.key) is None:
                self._require_own_text(text, info.key)
            undo = known.asked.ask(info)
            if undo is None:
                return adapter.committer.write()  # behind the one that is perhaps under way
            return adapter.committer.write(
                Subscribe(known, text, data, retroactive=retroactive), is_alone=True, undo=undo
            )

    def _require_own_text(self, text: str, key: SubscriptionKey) -> None:
        """Raise `ConfigurationError` if another subscription is written with the same text."""
        for other in [info.key for info in self.known.asked]:
            if other != key and self._adapter.format.subscription_text(other) == text:
                raise ConfigurationError(
                    f"client {key.client_id!r} with subscription {key.subscription_name!r} cannot be told from client"
                    f" {other.client_id!r} with {other.subscription_name!r}: {self._adapter.format.name} writes both"
                    f" {text!r}"
                )

    def delete_subscription(self, key: SubscriptionKey) -> Completion[None]:
        adapter, known = self._adapter, self.known
        adapter.opened()
        with adapter.order:
            undo = known.asked.withdraw(key)
            return adapter.committer.write(
                Unsubscribe(known, adapter.format.subscription_text(key)), is_alone=True, undo=undo
            )

    def lookup_subscription(self, key: SubscriptionKey) -> SubscriptionInfo | None:
        return self.known.asked.get(key)

    def all_subscriptions(self) -> list[SubscriptionInfo]:
        return list(self.known.asked)

    def remove_everything(self) -> Completion[None]:
        """Remove messages and subscriptions."""
        with self._adapter.order:
            self.known.asked.clear()
            return self._adapter.committer.write(Forget(self.known), is_alone=True)

    def _checked(self, info: SubscriptionInfo) -> tuple[str, bytes]:
        """A subscription as the journal has it: its key and its bytes."""
        info.require_topic(self.destination)
        text = self._adapter.format.subscription_text(info.key)
        try:
            text.encode()
            return text, info_bytes(info, self._adapter.wire_version)
        except (CodecError, UnicodeEncodeError) as error:
            raise ConfigurationError(f"the durable subscription {text[:60]!r} cannot be written: {error}") from None

    # -- acknowledging -------------------------------------------------------------------------------------------

    def acknowledge(self, key: SubscriptionKey, *message_ids: MessageId) -> Completion[None]:
        parts = (self.acknowledgement(key, *message_ids),) if message_ids else ()
        return self._adapter.committer.write(*parts)

    def acknowledgement(self, key: SubscriptionKey, *message_ids: MessageId) -> Acknowledge:
        """What is submitted when a subscription has acknowledged messages."""
        store_format = self._adapter.format
        meant = [Meant.of(one, store_format) for one in message_ids]
        return Acknowledge(self.known, store_format.subscription_text(key), meant)

    def recover_next_subscription_messages(
        self, key: SubscriptionKey, cursor: Cursor, messages_max: int, bytes_max: int
    ) -> Page:
        index, subscription = self._adapter.reading(), self._subscription(key)

        def probe(level: int, after: int, rows: int) -> list[PageRow]:
            return [] if subscription is None else index.subscription_page(subscription.id, level, after, rows)

        return self._page(cursor, messages_max, bytes_max, probe)

    def subscription_message_count(self, key: SubscriptionKey) -> int:
        self._adapter.opened()
        subscription = self._subscription(key)
        return 0 if subscription is None else subscription.count

    def _subscription(self, key: SubscriptionKey) -> KnownSubscription | None:
        """What is in the index of it; None if it is under way."""
        if self.known.asked.get(key) is None:
            raise StoreError(f"{self.destination} has no durable subscription {key}")
        return self.known.subscriptions.get(self._adapter.format.subscription_text(key))
