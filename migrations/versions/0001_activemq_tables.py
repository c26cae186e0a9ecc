"""ActiveMQ's three tables: created where there are none, adopted where a Java broker made them.

Revision: 0001
Follows: nothing
"""

from __future__ import annotations

from alembic import context, op

from jdbcstore.store.jdbc.adoption import adopt, create

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create or adopt. The shape of these tables is frozen by ActiveMQ, so it may be read from the program."""
    tables = context.config.attributes["tables"]
    if context.is_offline_mode():
        create(op.execute, tables)
    else:
        adopt(op.get_bind(), tables)
