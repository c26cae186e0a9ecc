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
from jdbcstore.store.journal.work import Acknowledge, Forget, Meant, Subscribe, Unsubscribe, Write
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey

__all__ = ["JournalTopicMessageStore"]


class JournalTopicMessageStore(JournalMessageStore, TopicMessageStore):
    """One topic. Created by the adapter only."""

    @property
    def is_needed(self) -> bool:
        return bool(self.known.asked)

    # -- subscriptions -------------------------------------------------------------------------------------------

    def add_subscription(self, info: SubscriptionInfo, *, retroactive: bool = False) -> Completion[None]:
        self._adapter.require_open()
        text, data = self._checked(info)
        asked = self.known.asked
        with self._adapter.order:
            with self.known.asked_lock:
                known = asked.get(info.key)
                is_known = known is not None and _asks_the_same(known, info)
                if not is_known:
                    self._require_own_text(text, info.key)
                    asked[info.key] = info
            if is_known:
                completion: Completion[None] = Completion()  # behind the one that is perhaps under way
                self._adapter.committer.submit(Write(completion))
                return completion

            def undo() -> None:
                with self.known.asked_lock:
                    if asked.get(info.key) is info:
                        asked.pop(info.key)
                        if known is not None:
                            asked[info.key] = known

            return self.submit_alone(Subscribe(self.known, text, data, retroactive=retroactive), undo)

    def _require_own_text(self, text: str, key: SubscriptionKey) -> None:
        """Raise `ConfigurationError` if another subscription is written with the same text."""
        for other in self.known.asked:
            if other != key and self._adapter.format.subscription_text(other) == text:
                raise ConfigurationError(
                    f"client {key.client_id!r} with subscription {key.subscription_name!r} cannot be told from client"
                    f" {other.client_id!r} with {other.subscription_name!r}: {self._adapter.format.name} writes both"
                    f" {text!r}"
                )

    def delete_subscription(self, key: SubscriptionKey) -> Completion[None]:
        self._adapter.require_open()
        asked = self.known.asked
        with self._adapter.order:
            with self.known.asked_lock:
                known = asked.pop(key, None)

            def undo() -> None:
                with self.known.asked_lock:
                    if known is not None:
                        asked.setdefault(key, known)

            return self.submit_alone(Unsubscribe(self.known, self._adapter.format.subscription_text(key)), undo)

    def lookup_subscription(self, key: SubscriptionKey) -> SubscriptionInfo | None:
        return self.known.asked.get(key)

    def all_subscriptions(self) -> list[SubscriptionInfo]:
        return list(self.known.asked.values())

    def remove_everything(self) -> Completion[None]:
        """Remove messages and subscriptions."""
        with self._adapter.order:
            self.known.asked.clear()
            return self.submit_alone(Forget(self.known))

    def _checked(self, info: SubscriptionInfo) -> tuple[str, bytes]:
        """A subscription as the journal has it: its key and its bytes."""
        if info.destination != self.destination:
            raise ConfigurationError(
                f"a subscription to {info.destination} cannot be kept by the store of {self.destination}"
            )
        text = self._adapter.format.subscription_text(info.key)
        try:
            text.encode()
            return text, info_bytes(info, self._adapter.wire_version)
        except (CodecError, UnicodeEncodeError) as error:
            raise ConfigurationError(f"the durable subscription {text[:60]!r} cannot be written: {error}") from None

    # -- acknowledging -------------------------------------------------------------------------------------------

    def acknowledge(self, key: SubscriptionKey, *message_ids: MessageId) -> Completion[None]:
        completion: Completion[None] = Completion()
        parts = (self.acknowledgement(key, *message_ids),) if message_ids else ()
        self._adapter.committer.submit(Write(completion, parts=parts))
        return completion

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
        self._adapter.require_open()
        subscription = self._subscription(key)
        return 0 if subscription is None else subscription.count

    def _subscription(self, key: SubscriptionKey) -> KnownSubscription | None:
        """What is in the index of it; None if it is under way."""
        if key not in self.known.asked:
            raise StoreError(
                f"{self.destination} has no durable subscription {key.subscription_name!r} of client {key.client_id!r}"
            )
        return self.known.subscriptions.get(self._adapter.format.subscription_text(key))


def _asks_the_same(one: SubscriptionInfo, other: SubscriptionInfo) -> bool:
    """Whether a subscription goes on with this; `no_local` is the connection's affair."""
    same_topics = one.subscribed_destination == other.subscribed_destination
    return same_topics and (one.selector or None) == (other.selector or None)
