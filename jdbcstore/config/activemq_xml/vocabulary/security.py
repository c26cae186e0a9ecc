"""``<plugins>``: who may log in, and what may not be left out in silence."""

from __future__ import annotations

from typing import Final

from jdbcstore.config.activemq_xml.vocabulary.entry import Kind, boolean, ignored, ignored_all, refused, used

__all__ = ["PLUGIN_KINDS"]

_JAAS: Final = (
    "JAAS is not there: give the users to <simpleAuthenticationPlugin>, or keep strangers out by other means and remove"
    " this element"
)
_EVERYTHING: Final = (
    "who has logged in may do everything here; remove this element to accept that, or run a broker for each group"
)
_NOT_RUN: Final = {
    "connectionDotFilePlugin": "no drawings are made",
    "destinationDotFilePlugin": "no drawings are made",
    "destinationPathSeparatorPlugin": "elements of names are separated by dots",
    "destinationsPlugin": "the store knows its destinations",
    "discardingDLQBrokerPlugin": "dead letters are kept",
    "forcePersistencyModeBroker": "who sends decides whether a message is persistent",
    "forcePersistencyModeBrokerPlugin": "who sends decides whether a message is persistent",
    "loggingBrokerPlugin": "--log-level debug logs more, but not messages",
    "multicastTraceBrokerPlugin": "messages are not copied to the network",
    "partitionBrokerPlugin": "no network of brokers",
    "runtimeConfigurationPlugin": "the file is read once, at the start",
    "statisticsBrokerPlugin": "jdbcstore stats tells what is in a store",
    "timeStampingBrokerPlugin": "timestamps and expiry are the sender's",
    "traceBrokerPathPlugin": "no network of brokers",
    "udpTraceBrokerPlugin": "messages are not copied to the network",
    "virtualSelectorCacheBrokerPlugin": "virtual topics go to every consumer's queue, whatever its selectors",
}

PLUGIN_KINDS: Final = (
    Kind(
        "simpleAuthenticationPlugin",
        "The users, `broker.users`. Without it everybody may log in.",
        {
            "users": used("a list of authenticationUser", "nobody"),
            "anonymousAccessAllowed": used(
                "`broker.anonymous_access_allowed`", "false", option="broker.anonymous_access_allowed", read=boolean
            ),
            "anonymousUser": ignored("who has not logged in has no name", "anonymous"),
            "anonymousGroup": ignored("there are no groups: who has logged in may do everything", "anonymous"),
            **{
                name: refused('write <users><authenticationUser username="…" password="…"/></users>')
                for name in ("userPasswords", "userGroups")
            },
        },
        ("org.apache.activemq.security.SimpleAuthenticationPlugin",),
        where="plugins",
    ),
    Kind(
        "authenticationUser",
        "A user.",
        {
            "username": used("login"),
            "password": used("passcode"),
            "groups": ignored("there are no groups: who has logged in may do everything"),
        },
        ("org.apache.activemq.security.AuthenticationUser",),
        where="plugins",
    ),
    *(
        Kind(
            name,
            "Users from elsewhere.",
            ignored_all("configuration discoverLoginConfig sslConfiguration", ""),
            (f"org.apache.activemq.security.{name[0].upper()}{name[1:]}",),
            refused=_JAAS,
            where="plugins",
        )
        for name in ("jaasAuthenticationPlugin", "jaasCertificateAuthenticationPlugin", "jaasDualAuthenticationPlugin")
    ),
    Kind(
        "authorizationPlugin",
        "Who may read and write where.",
        ignored_all("map", ""),
        ("org.apache.activemq.security.AuthorizationPlugin",),
        refused=_EVERYTHING,
        where="plugins",
    ),
)

#: Plugins whose absence loses nothing: a warning each.
PLUGINS_NOT_RUN: Final = _NOT_RUN
