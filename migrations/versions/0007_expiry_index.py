"""The index of EXPIRATION, which ActiveMQ makes too: expired messages are found without looking at others.

Revision: 0007
Follows: 0006
"""

from __future__ import annotations

from alembic import context, op
from sqlalchemy.schema import DropIndex

from jdbcstore.store.jdbc.adoption import add_expiry_index

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Create it, unless it is there. Revision 0001 creates it with the table since this revision is known."""
    if not context.is_offline_mode():
        add_expiry_index(op.get_bind(), context.config.attributes["tables"])


def downgrade() -> None:
    """Drop it; ours as well as ActiveMQ's, which makes it again when it starts."""
    tables = context.config.attributes["tables"]
    for index in tables.messages_indexes:
        if tables.plain(str(index.name)) == "ACTIVEMQ_MSGS_EIDX":
            op.execute(DropIndex(index))
