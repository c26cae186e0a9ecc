"""Stores that are journals: files to which records are appended, and an index of what is live in them.

The modules here are the engine, in two layers. Below, `journal_writer`, `journal_directory`, `file_reader` and
`shared_file_lock` know files, batches, forces and locks, and nothing of what a record says; what a format is to them is
a `jdbcstore.store.journal.journal_format.JournalFormat`. Above, records are `commands` at `records.Location`, whatever
their bytes are: `state` and `replay` say what a journal comes to, `work` and `committer` write, `applier` and `index`
keep where everything is, `recovery` makes index and journal agree at the start, `cleanup` says which files are not
needed any more, `adapter` puts it together. A format gives them a `jdbcstore.store.journal.store_format.StoreFormat`.

What any store in a directory has, whatever keeps its contents, is a layer of its own: `directory_adapter` (the lock,
the message stores), `batch_committer` (a batch is proved, appended, forced), `writes`, `asked_subscriptions`. `leveldb`
stands on that only: its records are no commands, so that `state`, `work` and `index` are others there.

Each format has a package of its own, which the engine does not import: `kahadb`, `amq`, `leveldb`; `mkahadb` is
several KahaDB.
"""
