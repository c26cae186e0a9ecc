"""The AMQ store: where brokers 5.0 to 5.3 kept their messages, and those up to 5.8 where they were told to.

What a directory holds, read it in this order: `journal` (files, records, batches, damage), `decoding` (what a record
says), `jdbcstore.store.journal.replay` (from records to state), `reference_store` (what only the broker's index knows).
"""
