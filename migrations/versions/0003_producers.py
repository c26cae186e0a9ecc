"""Our table of producers: how far each came that numbers its messages, so that one sent again is stored once.

Revision: 0003
Follows: 0002
"""

from __future__ import annotations

from alembic import context, op
from sqlalchemy.schema import DropTable

from jdbcstore.store.jdbc.adoption import add_producers, create_producers

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create it, unless it is there."""
    tables = context.config.attributes["tables"]
    if context.is_offline_mode():
        create_producers(op.execute, tables)
    else:
        add_producers(op.get_bind(), tables)


def downgrade() -> None:
    """Drop it: messages that are sent again are stored again."""
    op.execute(DropTable(context.config.attributes["tables"].producers))
