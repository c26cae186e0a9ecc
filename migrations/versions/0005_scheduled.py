"""Our table of scheduled messages.

Revision: 0005
Follows: 0004
"""

from __future__ import annotations

from alembic import context, op
from sqlalchemy.schema import DropTable

from jdbcstore.store.jdbc.adoption import add_scheduled, create_scheduled

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create it, unless it is there."""
    tables = context.config.attributes["tables"]
    if context.is_offline_mode():
        create_scheduled(op.execute, tables)
    else:
        add_scheduled(op.get_bind(), tables)


def downgrade() -> None:
    """Drop it: messages that are not due yet are lost."""
    op.execute(DropTable(context.config.attributes["tables"].scheduled))
