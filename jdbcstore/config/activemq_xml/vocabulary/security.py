"""``<plugins>``: who may log in, and what may not be left out in silence."""

from __future__ import annotations

from typing import Final

from jdbcstore.config.activemq_xml.vocabulary.entry import Kind, ignored, refused, used

__all__ = ["PLUGIN_KINDS"]

_NOT_RUN: Final = {
    "connectionDotFilePlugin": "no drawings are made",
    "destinationDotFilePlugin": "no drawings are made",
    "destinationsPlugin": "the store knows its destinations",
    "discardingDLQBrokerPlugin": "dead letters are kept",
    "multicastTraceBrokerPlugin": "messages are not copied to the network",
    "partitionBrokerPlugin": "no network of brokers",
    "runtimeConfigurationPlugin": "the file is read once, at the start",
    "traceBrokerPathPlugin": "no network of brokers",
    "udpTraceBrokerPlugin": "messages are not copied to the network",
    "virtualSelectorCacheBrokerPlugin": "selectors are not remembered (with selectorAware an error)",
}

_LDAP: Final = "LDAP is not asked here: write the entries into <authorizationMap>"
_LOGIN_CONFIG: Final = {
    "configuration": used("the name in login.config", "activemq-domain"),
    "discoverLoginConfig": used(
        "login.config is looked for beside activemq.xml, unless -Djava.security.auth.login.config says where", "true"
    ),
}
_ROLES: Final = {
    name: used(f"groups that may {what}, with commas between; `*` is everybody", "nobody")
    for name, what in (("read", "subscribe and browse"), ("write", "send"), ("admin", "use what is not there yet"))
}
_GROUP_CLASS: Final = {
    "groupClass": refused(
        "entries name groups", "org.apache.activemq.jaas.GroupPrincipal", "org.apache.activemq.jaas.groupprincipal"
    )
}

PLUGIN_KINDS: Final = (
    Kind(
        "simpleAuthenticationPlugin",
        "The users. Without a plugin for authentication everybody may log in.",
        {
            "users": used("a list of authenticationUser", "nobody"),
            "anonymousAccessAllowed": used("let in who gives neither login nor passcode", "false"),
            "anonymousUser": used("what such a client is called", "anonymous"),
            "anonymousGroup": used("its group", "anonymous"),
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
            "password": used("passcode, in plain or hashed"),
            "groups": used("with commas between", "none"),
        },
        ("org.apache.activemq.security.AuthenticationUser",),
        where="plugins",
    ),
    *(
        Kind(
            name,
            "Users of the modules in `login.config`: `PropertiesLoginModule`, `TextFileCertificateLoginModule` and"
            " `GuestLoginModule`, see [security](security.md).",
            _LOGIN_CONFIG,
            (f"org.apache.activemq.security.{name[0].upper()}{name[1:]}",),
            where="plugins",
        )
        for name in ("jaasAuthenticationPlugin", "jaasCertificateAuthenticationPlugin")
    ),
    Kind(
        "jaasDualAuthenticationPlugin",
        "The same, with modules of their own for clients that come by TLS.",
        {
            **_LOGIN_CONFIG,
            "sslConfiguration": used("the name in login.config for clients that come by TLS", "activemq-ssl-domain"),
        },
        ("org.apache.activemq.security.JaasDualAuthenticationPlugin",),
        where="plugins",
    ),
    Kind(
        "statisticsBrokerPlugin",
        "Becomes `broker.statistics_support`: messages to `ActiveMQ.Statistics.…` that have a reply-to are answered.",
        {},
        ("org.apache.activemq.plugin.StatisticsBrokerPlugin",),
        where="plugins",
    ),
    Kind(
        "loggingBrokerPlugin",
        "Becomes `broker.log_events`: what clients do, in lines of our own ([log events](log-events.md)).",
        {
            "logAll": used("all of them", "false"),
            "logConnectionEvents": used("`connections`", "true"),
            "logConsumerEvents": used("`consumers`", "false"),
            "logProducerEvents": used("`producers`", "false"),
            "logTransactionEvents": used("`transactions`", "false"),
            "logInternalEvents": used("`internal`", "false"),
            "logSessionEvents": ignored("sessions are nothing but numbers here", "true", "true"),
            "perDestinationLogger": ignored("each line names its destination", "false", "false"),
        },
        ("org.apache.activemq.broker.util.LoggingBrokerPlugin",),
        where="plugins",
    ),
    Kind(
        "timeStampingBrokerPlugin",
        "Becomes `broker.time_stamping`: messages were sent when they come, by the broker's clock.",
        {
            "zeroExpirationOverride": used("`broker.zero_expiration_override_ms`", "0"),
            "ttlCeiling": used("`broker.ttl_ceiling_ms`", "0"),
            "futureOnly": used("`broker.time_stamping_future_only`", "false"),
            "processNetworkMessages": ignored("no network of brokers", "false", "false"),
        },
        ("org.apache.activemq.broker.util.TimeStampingBrokerPlugin",),
        where="plugins",
    ),
    *(
        Kind(
            name,
            "What senders say of persistence does not count.",
            {
                "persistenceFlag": used(
                    "`true` is `broker.force_persistent`; with `false` a warning: persistent messages stay so", "false"
                )
            },
            (f"org.apache.activemq.plugin.{name[0].upper()}{name[1:]}",),
            where="plugins",
        )
        for name in ("forcePersistencyModeBroker", "forcePersistencyModeBrokerPlugin")
    ),
    Kind(
        "destinationPathSeparatorPlugin",
        "Other separators in names of destinations.",
        {},
        ("org.apache.activemq.broker.util.DestinationPathSeparatorBroker",),
        refused="elements of names are separated by dots: A/B is not A.B here, and what is there would not be consumed",
        where="plugins",
    ),
    Kind(
        "authorizationPlugin",
        "Who may read and write where, see [security](security.md).",
        {"map": used("an authorizationMap")},
        ("org.apache.activemq.security.AuthorizationPlugin",),
        where="plugins",
    ),
    Kind(
        "authorizationMap",
        "The entries.",
        {
            "authorizationEntries": used("a list of authorizationEntry"),
            "defaultEntry": used("the authorizationEntry that counts for every destination, beside the others"),
            "tempDestinationAuthorizationEntry": used("for temporary destinations; without it everybody may use them"),
            **_GROUP_CLASS,
        },
        ("org.apache.activemq.security.DefaultAuthorizationMap",),
        where="plugins",
    ),
    Kind(
        "authorizationEntry",
        "Which groups may do what with the destinations of a pattern.",
        {
            "queue": used("pattern"),
            "topic": used("pattern"),
            "tempQueue": used("nothing, as with ActiveMQ"),
            "tempTopic": used("nothing, as with ActiveMQ"),
            **_ROLES,
            **_GROUP_CLASS,
        },
        ("org.apache.activemq.security.AuthorizationEntry",),
        where="plugins",
    ),
    Kind(
        "tempDestinationAuthorizationEntry",
        "Which groups may do what with temporary destinations.",
        {**_ROLES, **_GROUP_CLASS},
        ("org.apache.activemq.security.TempDestinationAuthorizationEntry",),
        where="plugins",
    ),
    *(
        Kind(name, "Entries from elsewhere.", {}, (classes,), refused=why, where="plugins")
        for name, classes, why in (
            ("cachedLDAPAuthorizationMap", "org.apache.activemq.security.SimpleCachedLDAPAuthorizationMap", _LDAP),
            ("lDAPAuthorizationMap", "org.apache.activemq.security.LDAPAuthorizationMap", _LDAP),
            (
                "simpleAuthorizationMap",
                "org.apache.activemq.security.SimpleAuthorizationMap",
                "write the entries into <authorizationMap>",
            ),
        )
    ),
)

#: Plugins whose absence loses nothing: a warning each.
PLUGINS_NOT_RUN: Final = _NOT_RUN
