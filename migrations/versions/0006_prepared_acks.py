"""Our table of prepared acknowledgements: those of XA transactions that are in doubt.

Revision: 0006
Follows: 0005
"""

from __future__ import annotations

from alembic import context, op
from sqlalchemy.schema import DropTable

from jdbcstore.store.jdbc.adoption import add_prepared_acks, create_prepared_acks

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create it, unless it is there."""
    tables = context.config.attributes["tables"]
    if context.is_offline_mode():
        create_prepared_acks(op.execute, tables)
    else:
        add_prepared_acks(op.get_bind(), tables)


def downgrade() -> None:
    """Drop it: what prepared transactions acknowledged of durable subscriptions is delivered again."""
    op.execute(DropTable(context.config.attributes["tables"].prepared_acks))
