"""KahaDB: the directories in which most ActiveMQ brokers keep their messages. Read, and written, without Java.

What a directory holds, read it in this order: `journal` (files, batches, records, damage), `decoding` (the bytes of the
commands of `jdbcstore.store.journal.commands`), `jdbcstore.store.journal.replay` (from records to state), `scheduler`
(the same for scheduled messages). None of these needs an index, and none of them writes.

The store on such a directory is the engine's (`jdbcstore.store.journal`), with KahaDB's bytes: `encoding`, `appender`.
`recovery` and `rebuild` see to it that Java brokers and ours can take turns, `scheduler_journal` keeps scheduled
messages.

For people: `inspection` checks a directory, `survey` and `diagnosis` say what fills it, `repair` makes a new one of
what can be read.
"""
