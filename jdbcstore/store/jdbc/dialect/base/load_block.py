"""What a bulk load brings: rows one by one, or many in columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["LoadBlock", "LoadRow"]

#: MSGID_PROD, MSGID_SEQ, CONTAINER, EXPIRATION, PRIORITY, MSG of a message that is to be loaded.
LoadRow: TypeAlias = tuple[str, int, str, int, int, bytes]


@dataclass(frozen=True, slots=True)
class LoadBlock:
    """Rows of one producer, at least one: numbered one after another, never expiring.

    Args:
        producer: MSGID_PROD.
        sequence: MSGID_SEQ of the first row.
        containers: the different values of CONTAINER.
        container_at: which of these each row has, an array of NumPy's.
        priorities: PRIORITY of each row, an array of NumPy's.
        lengths: of MSG of each row in bytes, an array of NumPy's.
        pieces: what MSG is made of, each a binary column of Arrow's, or the bytes that all rows have.
    """

    producer: str
    sequence: int
    containers: Sequence[str]
    container_at: Any
    priorities: Any
    lengths: Any
    pieces: Sequence[Any]

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[LoadRow]:
        columns = self.container_at.tolist(), self.priorities.tolist(), self.messages().to_pylist()
        for sequence, (at, priority, message) in enumerate(zip(*columns, strict=True), self.sequence):
            yield self.producer, sequence, self.containers[at], 0, priority, message

    def messages(self) -> Any:
        """MSG of each row, a binary column of Arrow's."""
        from pyarrow.compute import binary_join_element_wise

        return binary_join_element_wise(*self.pieces, b"")
