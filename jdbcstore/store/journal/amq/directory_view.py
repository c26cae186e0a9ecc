"""Looking into an AMQ store (`jdbcstore.store.journal.directory_view`)."""

from __future__ import annotations

from pathlib import Path

from jdbcstore.store.journal.amq.adapter import AMQPersistenceAdapter
from jdbcstore.store.journal.amq.options import AMQOptions
from jdbcstore.store.journal.amq.recovery import made_anew
from jdbcstore.store.journal.directory_view import DirectoryView
from jdbcstore.store.journal.index import Index

__all__ = ["AMQView"]


class AMQView(DirectoryView, AMQPersistenceAdapter):
    """An AMQ store, to read.

    Args:
        directory: the one with ``journal`` in it; it is there.
    """

    def __init__(self, directory: Path | str) -> None:
        super().__init__(directory, AMQOptions(use_lock=False, virtual_topic_consumers=""))

    def _made_anew(self, path: Path) -> Index:
        return made_anew(path, self.directory, self.options)
