"""OpenWire, ActiveMQ's binary format: the bytes of column MSG and of a journal's records, and of connections.

`unmarshal` reads a frame, `marshal` writes one. Both know all message types and commands of wire versions 1 to 12 in
loose encoding without caching. Tables of fields are in `jdbcstore.openwire.fields`.

Connections have tight encoding and an object cache as well: `jdbcstore.openwire.connection_codec`. The protocol is in
`jdbcstore.openwire.protocol`. Nothing here knows a socket, a clock or a thread.
"""

from jdbcstore.openwire.codec import STORE_VERSION, marshal, unmarshal, unmarshal_message
from jdbcstore.openwire.template import MessageTemplate

__all__ = ["STORE_VERSION", "MessageTemplate", "marshal", "unmarshal", "unmarshal_message"]
