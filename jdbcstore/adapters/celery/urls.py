"""What makes ``jdbcstore://`` a URL that kombu can read.

=================================== =================================================================================
``jdbcstore://host1:61613,host2``   brokers, of which one is master; as many as there are
``jdbcstore://user:secret@host/v1`` with a login; queues of the virtual host ``v1`` begin with ``v1.``
``jdbcstore+sqlite:///file``        a broker in the first program that connects, on this store; others find it there
``jdbcstore+postgresql://…``        the same
=================================== =================================================================================

kombu reads URLs itself, before it asks the transport, and takes ``host1:1,host2:2`` for a port that is no number. So
its reader is given ours for the URLs of this scheme; all others go on to kombu's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import kombu.utils.url as kombu_urls
from kombu.transport import TRANSPORT_ALIASES

__all__ = ["SCHEME", "SERIALIZER", "register"]

SCHEME: Final = "jdbcstore"

#: kombu has entry points for serialisers and none for transports; that for this one, which serialises nothing and is
#: never chosen, imports us.
SERIALIZER: Final = (None, None, "application/x-jdbcstore-transport")


def register() -> None:
    """Make the scheme known to kombu. It may be done again."""
    TRANSPORT_ALIASES[SCHEME] = "jdbcstore.adapters.celery.transport:Transport"
    theirs = getattr(kombu_urls, "_parse_url", None)
    if theirs is not None and not hasattr(theirs, "reads_brokers"):  # a kombu without it knows no lists of ports
        kombu_urls._parse_url = _reader(theirs)


def _reader(theirs: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(url: str) -> Any:
        if not url.startswith(f"{SCHEME}://"):
            return theirs(url)
        scheme, _, rest = url.partition("://")
        place, slash, path = rest.partition("/")
        login, at, brokers = place.rpartition("@")
        if "," not in brokers or ":" not in brokers:
            return theirs(url)
        # Without the brokers it is a URL that kombu can read; they are one host to it.
        parts = theirs(f"{scheme}://{login}{at}brokers{slash}{path}")
        return parts._replace(hostname=brokers)

    read.reads_brokers = True  # type: ignore[attr-defined]
    return read
