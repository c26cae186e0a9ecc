"""KahaDB: the directories in which most ActiveMQ brokers keep their messages. Read, and written, without Java.

What a directory holds, read it in this order: `journal` (files, batches, records, damage), `commands` (what a record
says), `decoding` (its bytes), `state` (what a broker knows), `replay` (from records to state), `scheduler` (the same
for scheduled messages). None of these needs an index, and none of them writes.

The store on such a directory begins at `adapter`: `work` makes records of what is to be stored (`encoding`),
`committer` writes them (`appender`, over the engine `jdbcstore.store.journal.journal_writer`), and `applier` puts what
they mean into our own `index`. `recovery` makes index and journal agree at the start, `cleanup` says which files are
not needed any more.

For people: `inspection` checks a directory, `survey` and `diagnosis` say what fills it, `repair` makes a new one of
what can be read.
"""
