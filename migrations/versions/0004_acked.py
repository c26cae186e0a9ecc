"""Our table of acknowledgements: what durable subscriptions are done with above their marks.

Revision: 0004
Follows: 0003
"""

from __future__ import annotations

from alembic import context, op
from sqlalchemy.schema import DropTable

from jdbcstore.store.jdbc.adoption import add_own_table, create_own_table
from jdbcstore.store.jdbc.own_tables import ACKED

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create it, unless it is there."""
    tables = context.config.attributes["tables"]
    if context.is_offline_mode():
        create_own_table(op.execute, tables, ACKED)
    else:
        add_own_table(op.get_bind(), tables, ACKED)


def downgrade() -> None:
    """Drop it: messages that were acknowledged out of order are delivered again."""
    op.execute(DropTable(context.config.attributes["tables"].acked))
