"""Our table of producers: how far each came that numbers its messages, so that one sent again is stored once.

Revision: 0003
Follows: 0002
"""

from __future__ import annotations

from alembic import context, op
from sqlalchemy.schema import DropTable

from jdbcstore.store.jdbc.adoption import add_own_table, create_own_table
from jdbcstore.store.jdbc.own_tables import PRODUCERS

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create it, unless it is there."""
    tables = context.config.attributes["tables"]
    if context.is_offline_mode():
        create_own_table(op.execute, tables, PRODUCERS)
    else:
        add_own_table(op.get_bind(), tables, PRODUCERS)


def downgrade() -> None:
    """Drop it: messages that are sent again are stored again."""
    op.execute(DropTable(context.config.attributes["tables"].producers))
