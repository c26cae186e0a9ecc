"""Our table of scheduled messages.

Revision: 0005
Follows: 0004
"""

from __future__ import annotations

from alembic import context, op
from sqlalchemy.schema import DropTable

from jdbcstore.store.jdbc.adoption import add_own_table, create_own_table
from jdbcstore.store.jdbc.own_tables import SCHEDULED

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create it, unless it is there."""
    tables = context.config.attributes["tables"]
    if context.is_offline_mode():
        create_own_table(op.execute, tables, SCHEDULED)
    else:
        add_own_table(op.get_bind(), tables, SCHEDULED)


def downgrade() -> None:
    """Drop it: messages that are not due yet are lost."""
    op.execute(DropTable(context.config.attributes["tables"].scheduled))
