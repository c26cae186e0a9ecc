"""``kr-store``: the index of a broker's AMQ store, and what only it knows.

Here our own index takes its place. Of the broker's three things count:

* **Whether it is clean.** A broker that finds it so does not read its journal, and what we wrote would not be there for
  it. So it is marked as not clean before anything is written, in its place: four bytes. (Deleting it would not help:
  a broker takes a reference store that is empty for one that is valid and empty, and then removes journal files with
  messages.) Where there is none, one is made that is not clean.
* **The durable subscriptions.** Their records go with the journal files in which they stand, so for those that are old
  this list is all there is. A broker that replays begins with them. What we end is taken out of it.
* **The prepared transactions**, if it is clean: a broker that rolls one back writes nothing to the journal.

Nothing of that is believed if it does not refer to all journal files with live messages: then somebody has emptied it,
and a broker was started on it, which has lost what only it told.
"""

from __future__ import annotations

import logging
import re
import struct
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from jdbcstore.destination import Queue
from jdbcstore.errors import CodecError, StoreError
from jdbcstore.identifiers import XATransactionId
from jdbcstore.openwire import unmarshal
from jdbcstore.openwire.commands import SubscriptionInfo
from jdbcstore.store.disk import DiskFile, force_directory, make_directory, move
from jdbcstore.store.journal.amq.blank_state import blank_state
from jdbcstore.store.journal.amq.kaha_store import NAME_MAX, Container, Item, KahaDamaged, unsafe_name
from jdbcstore.store.journal.file_errors import writing

__all__ = [
    "DIRECTORY",
    "ReferenceStore",
    "keep_subscriptions",
    "known_queues",
    "mark_as_not_clean",
    "read_reference_store",
]

log = logging.getLogger(__name__)

#: In the directory of the store.
DIRECTORY: Final = "kr-store"
_STATE: Final = "state"
_DATA: Final = "data"
_QUEUE_INDEX: Final = "hash-index-queue-data_"
_STORE_STATE: Final = "store-state"
#: Of a state that is being made.
_NEW: Final = "state.jdbcstore"
#: Container ids, as Java writes them: name of the container, id of the list or map.
_LISTS: Final = (b"\x00\x04kaha", b"durableSubscribers")
_INDEX_VERSION: Final = 7
#: A java.util.concurrent.atomic.AtomicBoolean ends in an int32.
_FLAG: Final = struct.Struct(">i")
_SIZE: Final = struct.Struct(">i")
#: What stands in front of the value of a java.lang.Integer: its class in full the first time, then a reference to it.
_INTEGER: Final = re.compile(rb"sr\x00\x11java\.lang\.Integer.*?xp(?!sr)|sq\x00~\x00\x02", re.DOTALL)


@dataclass(slots=True)
class ReferenceStore:
    """What it says."""

    directory: Path
    """``kr-store``."""
    is_there: bool = False
    is_clean: bool = False
    """Whether a broker would start without reading its journal."""
    flag: tuple[Path, int] | None = None
    """Where that stands."""
    subscriptions: list[tuple[SubscriptionInfo, bytes]] = field(default_factory=list)
    """The durable subscriptions that there are, with their bytes."""
    prepared: list[XATransactionId] | None = None
    """The transactions in doubt; None if it does not tell."""
    files: frozenset[int] = frozenset()
    """The journal files that it refers to, if it is clean."""
    damage: str | None = None
    """What is wrong with it, if something is."""


def read_reference_store(directory: Path) -> ReferenceStore:
    """Read what is of use.

    Args:
        directory: of the whole store.
    """
    found = ReferenceStore(directory / DIRECTORY)
    state = found.directory / _STATE
    container = Container(state, _STORE_STATE)
    found.is_there = container.exists
    if not found.is_there:
        return found
    try:
        version = 0
        for item in container.items():
            key, value = container.read(item.key), container.read(item.value)
            if key.endswith(b"\x00\x0bstore-state"):
                path = container.data_path(item.value[0])
                found.flag = path, container.value_offset(item.value) + len(value) - _FLAG.size
                found.is_clean = bool(_FLAG.unpack(value[-_FLAG.size :])[0])
            elif key.endswith(b"\x00\x11record-references"):
                found.files = _referred(value)
            elif key.endswith(b"\x00\x0dINDEX_VERSION"):
                version = _FLAG.unpack(value[-_FLAG.size :])[0]
        found.is_clean = found.is_clean and version >= _INDEX_VERSION
        if found.flag is None:
            found.is_clean = False
        kaha = Container(state, "kaha")
        if not kaha.exists:
            raise KahaDamaged(f"{kaha.path} is missing: which durable subscriptions there are is not known")
        found.subscriptions = [(info, data) for _, info, data in _subscriptions(kaha)]
        if found.is_clean:
            found.prepared = _prepared(Container(state, "transactions-state"))
    except StoreError as error:
        found.damage, found.prepared = str(error), None
    return found


def _referred(value: bytes) -> frozenset[int]:
    """The keys of a java.util.HashMap from Integer to AtomicInteger, as Java writes it."""
    found = [value[match.end() : match.end() + _FLAG.size] for match in _INTEGER.finditer(value)]
    return frozenset(_FLAG.unpack(one)[0] for one in found if len(one) == _FLAG.size)


def _subscriptions(kaha: Container) -> list[tuple[Item, SubscriptionInfo, bytes]]:
    root = _root(kaha)
    found = []
    for item in kaha.items(root) if root is not None else ():
        data = kaha.read(item.value)[_SIZE.size :]
        try:
            info = unmarshal(data)
        except CodecError as error:
            raise KahaDamaged(f"{kaha.path}: the subscription at {item.offset} cannot be read: {error}") from None
        if isinstance(info, SubscriptionInfo):
            found.append((item, info, data))
    return found


def _root(kaha: Container) -> int | None:
    """Where the list of durable subscriptions begins: among the roots of lists, which the second item leads to."""
    if not kaha.exists:
        return None
    for item in kaha.items(_ITEM_SIZE):
        key = kaha.read(item.key)
        if all(part in key for part in _LISTS):
            return item.value[1]
    return None


_ITEM_SIZE: Final = 51


def _prepared(container: Container) -> list[XATransactionId] | None:
    if not container.exists:
        return None
    found = []
    for item in container.items():
        data = container.read(item.key)[_SIZE.size :]
        try:
            xid = unmarshal(data)
        except CodecError as error:
            raise KahaDamaged(f"{container.path}: the transaction at {item.offset} cannot be read: {error}") from None
        if isinstance(xid, XATransactionId):
            found.append(xid)
    return found


def known_queues(directory: Path) -> set[Queue]:
    """The queues that a broker has containers for, also empty ones, by the names of their index files.

    Args:
        directory: of the whole store.
    """
    found = set()
    for path in (directory / DIRECTORY / _DATA).glob(f"{_QUEUE_INDEX}*"):
        name = path.name.removeprefix(_QUEUE_INDEX)
        destination = unsafe_name(name)
        if len(name) < NAME_MAX and destination.startswith(Queue.prefix):  # a longer one was cut
            found.add(Queue.decoded(destination.removeprefix(Queue.prefix)))
    return found


def mark_as_not_clean(store: ReferenceStore) -> None:
    """See to it that a broker reads its journal when it starts.

    Raises:
        StoreError: it cannot be written.
    """
    state = store.directory / _STATE
    with writing(str(state)):
        if store.flag is not None:
            path, offset = store.flag
            if store.is_clean:
                _write(path, offset, _FLAG.pack(0))
                store.is_clean = False
            return
        if state.exists() and any(state.iterdir()):  # nothing that a broker would take for a state
            move(state, state.with_name(f"{_STATE}.damaged.{state.stat().st_mtime_ns}"))
        new = state.with_name(_NEW)
        make_directory(new)
        for name, data in blank_state():
            file = DiskFile(new / name, create=not (new / name).exists())
            try:
                file.write(data, 0)
                file.sync()
            finally:
                file.close()
        force_directory(new)
        move(new, state)  # a part of it would be an empty one for a broker


def keep_subscriptions(directory: Path, kept: Collection[tuple[str, str]]) -> None:
    """Take the durable subscriptions out that are not among these, by client id and name.

    Args:
        directory: of the whole store.
        kept: those that there are.

    Raises:
        StoreError: it cannot be read or written.
    """
    while True:
        kaha = Container(directory / DIRECTORY / _STATE, "kaha")
        try:
            gone = [
                item for item, info, _ in _subscriptions(kaha) if (info.client_id, info.subscription_name) not in kept
            ]
        except StoreError as error:
            log.warning("the list of durable subscriptions of brokers cannot be read, and stays as it is: %s", error)
            return
        if not gone:
            return
        with writing(str(kaha.path)):
            _write(kaha.path, *kaha.link(gone[-1]))


def _write(path: Path, offset: int, data: bytes) -> None:
    file = DiskFile(path, create=False)
    try:
        file.write(data, offset)
        file.sync()
    finally:
        file.close()
