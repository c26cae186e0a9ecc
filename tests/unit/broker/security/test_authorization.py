"""Who may do what, by the entries."""

from __future__ import annotations

import pytest

from jdbcstore import NotAuthorized, Queue, TempQueue, Topic
from jdbcstore.broker.security.authorization import Action, Authorization, AuthorizationEntry, AuthorizationMap
from jdbcstore.broker.security.principal import EVERYBODY, Principal
from jdbcstore.destination import Destination, parse_destination

READ, WRITE, ADMIN = Action.READ, Action.WRITE, Action.ADMIN


def entry(pattern: str, *, read: str = "", write: str = "", admin: str = "") -> AuthorizationEntry:
    groups = {name: frozenset(text.split()) for name, text in (("read", read), ("write", write), ("admin", admin))}
    return AuthorizationEntry(pattern=parse_destination(pattern) if pattern else None, **groups)


def authorization(*entries: AuthorizationEntry, existing: tuple[Destination, ...] = ()) -> Authorization:
    return Authorization(AuthorizationMap(entries=entries), existing.__contains__)


def member(*groups: str, name: str = "bob") -> Principal:
    return Principal(name, frozenset((EVERYBODY, *groups)))


@pytest.mark.parametrize(
    ("pattern", "destination", "meets"),
    [
        ("queue://A", "queue://A", True),
        ("queue://A", "queue://B", False),
        ("queue://A", "topic://A", False),
        ("queue://>", "queue://A.B", True),
        ("queue://A.>", "queue://A", True),
        ("queue://A.>", "queue://AB", False),
        ("queue://A.*", "queue://A.B", True),
        ("queue://A.*", "queue://A.B.C", False),
        ("queue://A.*", "queue://A", False),
        ("queue://*.B", "queue://A.B", True),
        ("queue://A,queue://B", "queue://B", True),
        ("queue://A,topic://B", "topic://B", True),
        ("queue://A.B", "queue://>", False),
        ("queue://>", "queue://>", True),
        ("queue://>", "queue://A.>", True),
        ("queue://A.>", "queue://A.>", True),
        ("queue://A.>", "queue://>", False),
        ("queue://A.B", "queue://A.*", True),
        ("queue://A.B", "queue://B.*", False),
        ("queue://A.*.C", "queue://*.B.>", True),
        ("queue://A.B.C", "queue://A.*", False),
        ("queue://A.B", "queue://A.B.>", False),
    ],
)
def test_an_entry_counts_for_what_its_pattern_covers(pattern: str, destination: str, meets: bool) -> None:
    decides = authorization(entry(pattern, read="users"))
    assert decides.may(member("users"), READ, parse_destination(destination)) is meets
    assert not decides.may(member("others"), READ, parse_destination(destination))


def test_all_entries_that_cover_a_destination_are_added_up() -> None:
    decides = authorization(entry("queue://>", read="admins"), entry("queue://A", read="users"))
    assert decides.may(member("admins"), READ, Queue("A"))
    assert decides.may(member("users"), READ, Queue("A"))
    assert not decides.may(member("users"), READ, Queue("B"))
    assert not decides.may(member("users"), WRITE, Queue("A"))


def test_the_default_entry_is_added_to_all() -> None:
    decides = Authorization(
        AuthorizationMap(entries=(entry("queue://A", read="users"),), default=entry("", read="admins")), lambda _: True
    )
    assert decides.may(member("admins"), READ, Queue("A"))
    assert decides.may(member("admins"), READ, Topic("Z"))
    assert decides.may(member("users"), READ, Queue("A"))
    assert not decides.may(member("users"), READ, Topic("Z"))


def test_a_star_is_everybody_who_has_logged_in() -> None:
    decides = authorization(entry("queue://A", read="*"))
    assert decides.may(member(), READ, Queue("A"))
    assert not decides.may(Principal("bob", frozenset()), READ, Queue("A"))


def test_temporary_destinations_have_an_entry_of_their_own() -> None:
    everything = entry("queue://>", read="*", write="*", admin="*")
    temporary = TempQueue("ID:x:1")
    assert authorization(everything).may(member(), WRITE, temporary)
    decides = Authorization(AuthorizationMap(entries=(everything,), temporary=entry("", write="users")), lambda _: True)
    assert decides.may(member("users"), WRITE, temporary)
    assert not decides.may(member("users"), READ, temporary)
    assert not decides.may(member("others"), WRITE, temporary)


def test_every_part_of_a_composite_has_to_be_allowed() -> None:
    permissions = authorization(entry("queue://A", write="users"), entry("topic://B", write="users")).permissions(
        member("users")
    )
    assert permissions.may(WRITE, Queue("A,topic://B"))
    with pytest.raises(NotAuthorized, match=r"^User bob is not authorized to write to: queue://C$"):
        permissions.check(WRITE, Queue("A,topic://B,C"))


def test_what_is_not_there_takes_the_right_to_create_it() -> None:
    decides = authorization(entry("queue://>", read="users", write="users", admin="admins"), existing=(Queue("OLD"),))
    user, admin = decides.permissions(member("users")), decides.permissions(member("users", "admins"))
    user.check_send(Queue("OLD"))
    for check in (user.check_send, user.check_receive):
        with pytest.raises(NotAuthorized, match=r"^User bob is not authorized to create: queue://NEW$"):
            check(Queue("NEW"))
    assert user.may_subscribe(Queue("OLD"))
    assert not user.may_subscribe(Queue("NEW"))
    assert not user.may_subscribe(Queue("OLD,NEW"))
    assert admin.may_subscribe(Queue("OLD,NEW"))
    assert user.may_receive(Queue("NEW"))  # who subscribed to a wildcard creates nothing
    user.check_receive(Queue("N.>"))  # creates nothing
    admin.check_send(Queue("NEW"))
    decides.appeared([Queue("NEW")])
    user.check_send(Queue("NEW"))
    user.check_receive(Queue("NEW"))
    assert Queue("NEW") in user.sendable
    decides.forget()
    with pytest.raises(NotAuthorized):
        decides.permissions(member("users")).check_send(Queue("NEW"))


def test_a_wildcard_is_allowed_for_what_may_be_read() -> None:
    permissions = authorization(entry("queue://ORDERS.*", read="users")).permissions(member("users"))
    permissions.check_receive(Queue("ORDERS.>"))
    assert permissions.may_receive(Queue("ORDERS.EU"))
    assert not permissions.may_receive(Queue("ORDERS.EU.NORTH"))
    with pytest.raises(NotAuthorized, match=r"not authorized to read from: queue://>"):
        permissions.check_receive(Queue(">"))


def test_answers_take_bounded_memory() -> None:
    permissions = authorization(entry("queue://>", read="*", write="*", admin="*")).permissions(member())
    for number in range(10_000):
        permissions.check_send(Queue(f"Q{number}"))
        permissions.may_receive(Queue(f"Q{number}"))
    assert len(permissions.sendable) <= 4096
    assert len(permissions._readable) <= 4096
