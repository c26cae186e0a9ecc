"""What a subscription wants: everything, what a selector matches, or only what others have sent."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from jdbcstore.message import Message
from jdbcstore.selector import Selector

__all__ = ["EVERYTHING", "Interest"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Interest:
    """A condition on messages. Equal ones want the same.

    Args:
        selector: what messages have to match; None is all.
        unwanted_connections: whose messages are left out (``noLocal``).
    """

    selector: Selector | None = None
    unwanted_connections: tuple[str, ...] = ()

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return self.selector is None and not self.unwanted_connections

    def without(self, connections: Iterable[str]) -> Interest:
        """The same, but for what these connections send, too."""
        unwanted = dict.fromkeys((*self.unwanted_connections, *connections))
        return replace(self, unwanted_connections=tuple(unwanted))

    def wants(self, message: Message) -> bool:
        """Whether a message is wanted. A message that cannot be decoded is not."""
        if self.unwanted_connections:
            message_id = message.message_id
            producer = None if message_id is None else message_id.producer_id
            if producer is not None and producer.connection_id in self.unwanted_connections:
                return False
            told = getattr(message.data_structure, "connection_id", None)  # of an advisory: whose doing it tells
            if told is not None and told.value in self.unwanted_connections:
                return False
        try:
            return self.selector is None or self.selector.matches(message)
        except Exception:  # it costs this message, not its queue and all who wait there
            log.exception("defect in a selector message_id=%s", message.message_id)
            return False


EVERYTHING: Final = Interest()
