"""The messages of one topic and the durable subscriptions to it.

A message is stored once. The log says up to where a subscription has acknowledged; what it has acknowledged out of
order stands in remarks. The last acknowledgement takes the message away, so nothing is left to clean up.
"""

from __future__ import annotations

from jdbcstore.errors import ConfigurationError, StoreError
from jdbcstore.identifiers import MessageId
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Cursor, Page, TopicMessageStore
from jdbcstore.store.journal.leveldb.live import LiveSubscription
from jdbcstore.store.journal.leveldb.messages import LevelDBMessageStore
from jdbcstore.store.journal.leveldb.work import Acknowledge, Forget, Subscribe, Unsubscribe
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey

__all__ = ["LevelDBTopicMessageStore"]


class LevelDBTopicMessageStore(LevelDBMessageStore, TopicMessageStore):
    """One topic. Created by the adapter only."""

    @property
    def is_needed(self) -> bool:
        return bool(self.where.asked)

    # -- subscriptions -------------------------------------------------------------------------------------------

    def add_subscription(self, info: SubscriptionInfo, *, retroactive: bool = False) -> Completion[None]:
        adapter, where = self._adapter, self.where
        self._check(info)
        with adapter.order:
            undo = where.asked.ask(info)
            if undo is None:
                return adapter.committer.write()  # behind the one that is perhaps under way
            return adapter.committer.write(Subscribe(where, info, retroactive=retroactive), is_alone=True, undo=undo)

    def delete_subscription(self, key: SubscriptionKey) -> Completion[None]:
        where = self.where
        with self._adapter.order:
            undo = where.asked.withdraw(key)
            return self._adapter.committer.write(Unsubscribe(where, key), is_alone=True, undo=undo)

    def lookup_subscription(self, key: SubscriptionKey) -> SubscriptionInfo | None:
        return self.where.asked.get(key)

    def all_subscriptions(self) -> list[SubscriptionInfo]:
        return list(self.where.asked)

    def remove_everything(self) -> Completion[None]:
        """Remove messages and subscriptions."""
        with self._adapter.order:
            self.where.asked.clear()
            return self._adapter.committer.write(Forget(self.where), is_alone=True)

    def _check(self, info: SubscriptionInfo) -> None:
        info.require_topic(self.destination)
        texts = (info.key.client_id, info.key.subscription_name, info.selector or "")
        try:
            for text in (*texts, info.subscribed_destination.qualified_name):
                text.encode()
        except UnicodeEncodeError as error:
            raise ConfigurationError(f"the durable subscription {info.key} cannot be written: {error}") from None

    # -- acknowledging -------------------------------------------------------------------------------------------

    def acknowledge(self, key: SubscriptionKey, *message_ids: MessageId) -> Completion[None]:
        parts = (Acknowledge(self.where, key, message_ids),) if message_ids else ()
        return self._adapter.committer.write(*parts)

    def recover_next_subscription_messages(
        self, key: SubscriptionKey, cursor: Cursor, messages_max: int, bytes_max: int
    ) -> Page:
        self._adapter.reading()
        return self._page(self._subscription(key).pending, cursor, messages_max, bytes_max)

    def subscription_message_count(self, key: SubscriptionKey) -> int:
        return len(self._subscription(key).pending.all)

    def _subscription(self, key: SubscriptionKey) -> LiveSubscription:
        found = self.where.subscriptions.get(key)
        if found is None:
            raise StoreError(f"{self.destination} has no durable subscription {key}")
        return found
