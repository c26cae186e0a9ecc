"""Our tables of bulk loads: which there are, which parts of them are committed, and what a broker is to take in.

Revision: 0008
Follows: 0007
"""

from __future__ import annotations

from alembic import context, op
from sqlalchemy.schema import DropTable

from jdbcstore.store.jdbc.adoption import add_own_table, create_own_table
from jdbcstore.store.jdbc.own_tables import LOAD_PARTS, LOADS, STAGED

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Create them, unless they are there."""
    tables = context.config.attributes["tables"]
    for own in (LOAD_PARTS, STAGED, LOADS):
        if context.is_offline_mode():
            create_own_table(op.execute, tables, own)
        else:
            add_own_table(op.get_bind(), tables, own)


def downgrade() -> None:
    """Drop them: what no broker has taken in yet is lost, and a load that is repeated is loaded again."""
    tables = context.config.attributes["tables"]
    for table in (tables.loads, tables.load_parts, tables.staged):
        op.execute(DropTable(table))
