"""Our table of terms: how often one of our brokers became master, and which was the last.

Revision: 0002
Follows: 0001
"""

from __future__ import annotations

from alembic import context, op

from jdbcstore.store.jdbc.adoption import add_own_table, create_own_table
from jdbcstore.store.jdbc.own_tables import TERM

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create it, or what is missing of it."""
    tables = context.config.attributes["tables"]
    if context.is_offline_mode():
        create_own_table(op.execute, tables, TERM)
    else:
        add_own_table(op.get_bind(), tables, TERM)
