"""``<plugins>``: who may log in; and the plugins without which a broker would let strangers in."""

from __future__ import annotations

from jdbcstore.config.activemq_xml.beans import Bean, Setting
from jdbcstore.config.activemq_xml.findings import PlacedError
from jdbcstore.config.activemq_xml.options import Options
from jdbcstore.config.activemq_xml.policies import read_redeliveries
from jdbcstore.config.activemq_xml.settings import Examined, Given, Settings
from jdbcstore.config.activemq_xml.vocabulary import kind_named
from jdbcstore.config.activemq_xml.vocabulary.security import PLUGIN_KINDS, PLUGINS_NOT_RUN

__all__ = ["read_plugins"]


def read_plugins(settings: Settings, options: Options, setting: Setting) -> None:
    """Read the plugins. Raises PlacedError."""
    for value in setting.values:
        with settings.findings.errors_at(value.place):
            _plugin(settings, options, settings.bean(value))


def _plugin(settings: Settings, options: Options, bean: Bean) -> None:
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
    if kind.name == "simpleAuthenticationPlugin":
        options.take_all(examined.given)
        _users(settings, options, examined)


def _users(settings: Settings, options: Options, examined: Examined) -> None:
    users: dict[str, str] = {}
    setting = examined.open.get("users")
    for value in setting.values if setting is not None else ():
        with settings.findings.errors_at(value.place):
            user = settings.examine(settings.bean(value), ("authenticationUser",))
            login, passcode = (
                settings.only_text(user.open[name]) if name in user.open else "" for name in ("username", "password")
            )
            if not login:
                raise PlacedError(user.bean.place, f"{user.bean.label} has no username")
            users[login] = passcode
    shown = ", ".join(users) or "nobody"
    options.take("broker.users", Given(users, examined.bean.place, examined.bean.label), shown=shown)
