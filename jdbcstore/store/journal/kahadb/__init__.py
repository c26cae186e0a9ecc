"""KahaDB: the directories in which most ActiveMQ brokers keep their messages. Reading, without Java and without index.

Read it in this order: `journal` (files, batches, records, damage), `commands` (what a record says), `decoding` (its
bytes), `state` (what a broker knows), `replay` (from records to state), `scheduler` (the same for scheduled messages).
"""

from jdbcstore.store.journal.kahadb.journal import Damage, Journal, JournalFile, Location
from jdbcstore.store.journal.kahadb.replay import Replay, replay
from jdbcstore.store.journal.kahadb.scheduler import replay_scheduler
from jdbcstore.store.journal.kahadb.state import State

__all__ = ["Damage", "Journal", "JournalFile", "Location", "Replay", "State", "replay", "replay_scheduler"]
