"""OpenWire, ActiveMQ's binary format, as stores hold it: the bytes of column MSG and of a journal's records.

`unmarshal` reads a frame, `marshal` writes one. Both know all message types and commands of wire versions 1 to 12 in
loose encoding without caching. Tables of fields are in `jdbcstore.openwire.fields`.
"""

from jdbcstore.openwire.codec import STORE_VERSION, marshal, unmarshal, unmarshal_message
from jdbcstore.openwire.template import MessageTemplate

__all__ = ["STORE_VERSION", "MessageTemplate", "marshal", "unmarshal", "unmarshal_message"]
