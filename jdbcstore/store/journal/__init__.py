"""Stores that are journals: files to which records are appended, and an index of what is live in them.

The modules here are the engine. They know files, batches, forces and locks, and nothing of what a record says. What
differs from one kind of journal to another is a `jdbcstore.store.journal.journal_format.JournalFormat`; each has a
package of its own, which the engine does not import: `kahadb`.
"""
