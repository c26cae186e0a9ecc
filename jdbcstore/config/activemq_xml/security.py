"""``<plugins>``: who may log in and do what; and the plugins without which a broker would let strangers in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from jdbcstore.broker.security.authorization import AuthorizationEntry, AuthorizationMap
from jdbcstore.broker.security.login import Flag, GuestLogin, Guests, LoginStack, PasscodeLogin, Step
from jdbcstore.broker.security.users import GivenUsers, Users
from jdbcstore.config.activemq_xml.beans import Bean, Setting
from jdbcstore.config.activemq_xml.findings import PlacedError
from jdbcstore.config.activemq_xml.login_config import read_login_config
from jdbcstore.config.activemq_xml.options import Options
from jdbcstore.config.activemq_xml.placeholders import locate
from jdbcstore.config.activemq_xml.policies import read_redeliveries
from jdbcstore.config.activemq_xml.settings import Examined, Given, Settings
from jdbcstore.config.activemq_xml.vocabulary import kind_named
from jdbcstore.config.activemq_xml.vocabulary.entry import boolean, integer
from jdbcstore.config.activemq_xml.vocabulary.security import PLUGIN_KINDS, PLUGINS_NOT_RUN
from jdbcstore.config.authorization import groups_in
from jdbcstore.destination import Destination, Queue, Topic

__all__ = ["read_plugins"]

_DOMAIN, _TLS_DOMAIN = "activemq-domain", "activemq-ssl-domain"
_LOGIN_CONFIG: Final = "java.security.auth.login.config"


def read_plugins(settings: Settings, options: Options, setting: Setting) -> None:
    """Read the plugins. Raises PlacedError."""
    for value in setting.values:
        with settings.findings.errors_at(value.place):
            _plugin(settings, options, settings.bean(value))
    if options.authorization is not None and options.login_stack is None and not options.is_login_overridden:
        settings.findings.error(
            setting.place,
            "<authorizationPlugin> needs users: add a plugin for authentication, or nobody may do a thing",
        )


def _plugin(settings: Settings, options: Options, bean: Bean) -> None:
    is_selector_aware = any(one.selector_aware for one in options.virtual_destinations.virtual_topics)
    if bean.kind == "virtualSelectorCacheBrokerPlugin" and is_selector_aware:
        raise PlacedError(
            bean.place,
            f"{bean.label} is not supported: selectors of consumers that are away are not remembered, and what they"
            " want would be lost; leave selectorAware out",
        )
    if bean.kind in PLUGINS_NOT_RUN:
        settings.findings.warning(bean.place, f"{bean.label} is not supported: {PLUGINS_NOT_RUN[bean.kind]}")
        return
    if bean.kind in ("redeliveryPlugin", "org.apache.activemq.broker.util.RedeliveryPlugin"):
        read_redeliveries(settings, options, bean)
        return
    kind = kind_named(bean.kind)
    if kind is None or kind not in PLUGIN_KINDS:
        raise PlacedError(
            bean.place,
            f"{bean.label} is not supported: what a plugin does is not done here, which may let strangers in; remove it"
            " to accept that",
        )
    examined = settings.examine(bean)
    read = _READERS.get(kind.name)
    if read is not None:
        read(settings, options, examined)


def _statistics(settings: Settings, options: Options, examined: Examined) -> None:
    options.take("broker.statistics_support", Given(True, examined.bean.place, examined.bean.label))


def _logging(settings: Settings, options: Options, examined: Examined) -> None:
    def asks(name: str, default: str = "false") -> bool:
        return boolean(_text(settings, examined, name) or default)

    chosen = {
        "connections": asks("logConnectionEvents", "true"),
        "consumers": asks("logConsumerEvents"),
        "producers": asks("logProducerEvents"),
        "transactions": asks("logTransactionEvents"),
        "internal": asks("logInternalEvents"),
    }
    words = " ".join(word for word, is_on in chosen.items() if is_on or asks("logAll"))
    options.take("broker.log_events", Given(words, examined.bean.place, examined.bean.label))


def _time_stamping(settings: Settings, options: Options, examined: Examined) -> None:
    place, label = examined.bean.place, examined.bean.label
    options.take("broker.time_stamping", Given(True, place, label))
    for name, option in (
        ("zeroExpirationOverride", "broker.zero_expiration_override_ms"),
        ("ttlCeiling", "broker.ttl_ceiling_ms"),
    ):
        options.take(option, Given(max(0, integer(_text(settings, examined, name) or "0")), place, label))
    is_future_only = boolean(_text(settings, examined, "futureOnly") or "false")
    options.take("broker.time_stamping_future_only", Given(is_future_only, place, label))


def _persistency(settings: Settings, options: Options, examined: Examined) -> None:
    place, label = examined.bean.place, examined.bean.label
    if boolean(_text(settings, examined, "persistenceFlag") or "false"):
        options.take("broker.force_persistent", Given(True, place, label))
    else:
        settings.findings.warning(place, f"{label} is not followed: persistent messages stay persistent")


# -- users in the file ---------------------------------------------------------------------------------------------


def _simple(settings: Settings, options: Options, examined: Examined) -> None:
    users: dict[str, str] = {}
    groups: dict[str, frozenset[str]] = {}
    setting = examined.open.get("users")
    for value in setting.values if setting is not None else ():
        with settings.findings.errors_at(value.place):
            user = settings.examine(settings.bean(value), ("authenticationUser",))
            login, passcode, groups_of = (_text(settings, user, name) for name in ("username", "password", "groups"))
            if not login:
                raise PlacedError(user.bean.place, f"{user.bean.label} has no username")
            users[login], groups[login] = passcode, groups_in(groups_of)
    steps = [Step(PasscodeLogin(GivenUsers(Users(users, groups)), everybody_has_a_group=False))]
    if boolean(_text(settings, examined, "anonymousAccessAllowed") or "false"):
        name, group = (_text(settings, examined, what) or "anonymous" for what in ("anonymousUser", "anonymousGroup"))
        steps.insert(0, Step(GuestLogin(name, group, Guests.WITHOUT_LOGIN), Flag.SUFFICIENT))
        settings.findings.use("broker.anonymous_access_allowed", True, examined.bean.place, examined.bean.label)
    _take(settings, options, examined, LoginStack(steps), shown=", ".join(users) or "nobody")


# -- JAAS ----------------------------------------------------------------------------------------------------------


def _jaas(settings: Settings, options: Options, examined: Examined) -> None:
    domain = _text(settings, examined, "configuration") or _DOMAIN
    _take(settings, options, examined, _stack(settings, examined, domain), shown=f"JAAS {domain}")


def _dual(settings: Settings, options: Options, examined: Examined) -> None:
    domain = _text(settings, examined, "configuration") or _DOMAIN
    tls_domain = _text(settings, examined, "sslConfiguration") or _TLS_DOMAIN
    _take(settings, options, examined, _stack(settings, examined, domain), shown=f"JAAS {domain}; TLS: {tls_domain}")
    options.encrypted_login_stack = _stack(settings, examined, tls_domain)


def _stack(settings: Settings, examined: Examined, domain: str) -> LoginStack:
    conf = Path(settings.placeholders.system["activemq.conf"])
    named = settings.placeholders.system.get(_LOGIN_CONFIG)
    path = locate(named, Path.cwd()) if named else conf / "login.config"
    if not named and not boolean(_text(settings, examined, "discoverLoginConfig") or "true"):
        raise PlacedError(
            examined.bean.place,
            f'{examined.bean.label} discoverLoginConfig="false": say where login.config is, -D{_LOGIN_CONFIG}=FILE in'
            " ACTIVEMQ_OPTS",
        )
    return read_login_config(path, settings.placeholders.system.get).stack(domain)


def _take(settings: Settings, options: Options, examined: Examined, stack: LoginStack, *, shown: str) -> None:
    place = examined.bean.place
    if options.login_stack is not None:
        raise PlacedError(place, f"{examined.bean.label}: another plugin before it has users already; leave one out")
    options.login_stack = stack
    settings.findings.use("broker.users", shown, place, examined.bean.label)


# -- authorisation -------------------------------------------------------------------------------------------------


def _authorization(settings: Settings, options: Options, examined: Examined) -> None:
    place = examined.bean.place
    if "map" not in examined.open:
        raise PlacedError(place, f"{examined.bean.label} has no <map>")
    found = settings.examine(settings.only_bean(examined.open["map"]), ("authorizationMap",))
    entries: list[AuthorizationEntry] = []
    listed = found.open.get("authorizationEntries")
    for value in listed.values if listed is not None else ():
        with settings.findings.errors_at(value.place):
            entry = settings.examine(settings.bean(value), ("authorizationEntry",))
            pattern = _pattern(settings, entry)
            if pattern is not None:
                entries.append(_entry(settings, entry, pattern))
    options.authorization = AuthorizationMap(
        entries=tuple(entries),
        default=_single(settings, found, "defaultEntry", "authorizationEntry"),
        temporary=_single(settings, found, "tempDestinationAuthorizationEntry", "tempDestinationAuthorizationEntry"),
    )
    settings.findings.use("authorization", f"{len(entries)} entries", place, examined.bean.label)


def _single(settings: Settings, found: Examined, name: str, kind: str) -> AuthorizationEntry | None:
    if name not in found.open:
        return None
    return _entry(settings, settings.examine(settings.only_bean(found.open[name]), (kind,)), None)


def _entry(settings: Settings, examined: Examined, pattern: Destination | None) -> AuthorizationEntry:
    groups = {name: groups_in(_text(settings, examined, name)) for name in ("read", "write", "admin")}
    return AuthorizationEntry(pattern=pattern, **groups)


def _pattern(settings: Settings, examined: Examined) -> Destination | None:
    kinds = {"queue": Queue, "topic": Topic}
    given = [name for name in (*kinds, "tempQueue", "tempTopic") if name in examined.open]
    bean = examined.bean
    if len(given) != 1:
        raise PlacedError(bean.place, f'{bean.label} needs a pattern, queue="…" or topic="…", and not both')
    if given[0] not in kinds:
        settings.findings.warning(
            bean.place,
            f"{bean.label} {given[0]} means nothing, as with ActiveMQ: <tempDestinationAuthorizationEntry> decides"
            " about temporary destinations",
        )
        return None
    return kinds[given[0]](settings.only_text(examined.open[given[0]]))


def _text(settings: Settings, examined: Examined, name: str) -> str:
    return settings.only_text(examined.open[name]) if name in examined.open else ""


_READERS: Final[dict[str, Callable[[Settings, Options, Examined], None]]] = {
    "simpleAuthenticationPlugin": _simple,
    "jaasAuthenticationPlugin": _jaas,
    "jaasCertificateAuthenticationPlugin": _jaas,
    "jaasDualAuthenticationPlugin": _dual,
    "authorizationPlugin": _authorization,
    "loggingBrokerPlugin": _logging,
    "statisticsBrokerPlugin": _statistics,
    "timeStampingBrokerPlugin": _time_stamping,
    "forcePersistencyModeBroker": _persistency,
    "forcePersistencyModeBrokerPlugin": _persistency,
}
