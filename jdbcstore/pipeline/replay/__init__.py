"""Messages of an archive or of a KahaDB journal back into a store.

Read it in this order: `sources` (where from, and which), `rewriter` (what is changed in them, if anything), `replayer`.
"""

from jdbcstore.pipeline.replay.replayer import Replay, Replayed, replay

__all__ = ["Replay", "Replayed", "replay"]
