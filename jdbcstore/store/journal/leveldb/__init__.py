"""LevelDB directories (``levelDB``, ActiveMQ 5.7 to 5.16): read from the log and the index, and written on.

A directory has a log, which says what happened, and snapshots of an index, which say what is there. `records` knows the
bytes of a record, `log` the files, `state` what records come to, `index_reader` and `snapshot` the index, `recovery`
all of it together. `adapter` is the store.
"""
