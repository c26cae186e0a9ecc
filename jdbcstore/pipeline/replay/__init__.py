"""Messages of an archive or of a KahaDB journal back into a store.

Read it in this order: `sources` (where from, and which), `rewriting` (what is changed in them, if anything), `making`.
"""

from jdbcstore.pipeline.replay.replayer import Replay, Replayed, replay

__all__ = ["Replay", "Replayed", "replay"]
