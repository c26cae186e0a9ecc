"""Our tables of bulk loads: which there are, which parts of them are committed, and what a broker is to take in.

Revision: 0008
Follows: 0007
"""

from __future__ import annotations

from alembic import context, op
from sqlalchemy.schema import DropTable

from jdbcstore.store.jdbc.adoption import add_loads, create_loads

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Create them, unless they are there."""
    tables = context.config.attributes["tables"]
    if context.is_offline_mode():
        create_loads(op.execute, tables)
    else:
        add_loads(op.get_bind(), tables)


def downgrade() -> None:
    """Drop them: what no broker has taken in yet is lost, and a load that is repeated is loaded again."""
    tables = context.config.attributes["tables"]
    for table in (tables.loads, tables.load_parts, tables.staged):
        op.execute(DropTable(table))
