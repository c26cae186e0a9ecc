"""Our table of prepared acknowledgements: those of XA transactions that are in doubt.

Revision: 0006
Follows: 0005
"""

from __future__ import annotations

from alembic import context, op
from sqlalchemy.schema import DropTable

from jdbcstore.store.jdbc.adoption import add_own_table, create_own_table
from jdbcstore.store.jdbc.own_tables import PREPARED_ACKS

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create it, unless it is there."""
    tables = context.config.attributes["tables"]
    if context.is_offline_mode():
        create_own_table(op.execute, tables, PREPARED_ACKS)
    else:
        add_own_table(op.get_bind(), tables, PREPARED_ACKS)


def downgrade() -> None:
    """Drop it: what prepared transactions acknowledged of durable subscriptions is delivered again."""
    op.execute(DropTable(context.config.attributes["tables"].prepared_acks))
