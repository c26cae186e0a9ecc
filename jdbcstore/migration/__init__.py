"""Everything of a store into an empty one of any kind, and compared afterwards; in one process.

Read it in this order: `contents` (what is in a store at one moment), `summary` (what that comes to), the three that
read it: `tables` (of a SQL store), `journals` (of KahaDB), `stores` (of any other, through the contract), `target` (who
may write to the new store, and until when nobody else may), `copying`, `making`. `holding` and `rows` are shared with
the job of Spark that does the same on many machines.
"""

from jdbcstore.migration.making import Migrated, Showing, migrate, migrate_contents

__all__ = ["Migrated", "Showing", "migrate", "migrate_contents"]
