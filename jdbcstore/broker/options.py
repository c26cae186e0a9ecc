"""Everything about the broker that can be chosen. Nothing in it is unlimited."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from jdbcstore.addresses import parse_address, parse_listeners
from jdbcstore.destination import QUALIFIED_NAME_MAX, Queue
from jdbcstore.errors import ConfigurationError
from jdbcstore.wire_options import WireOptions

__all__ = ["EVENTS", "BrokerOptions", "check_dead_letter_queue", "open_files_max"]

_MIB: Final = 1 << 20
#: The words of `BrokerOptions.log_events`.
EVENTS: Final = ("connections", "consumers", "producers", "transactions", "internal")
_ON_LEASE_LOST: Final = ("standby", "stop")
_MAY_BE_ZERO: Final = (
    "login_delay_max_s",
    "login_remember_s",
    "offline_durable_subscriber_timeout_s",
    "peer_timeout_s",
    "silence_max_s",
    "ttl_ceiling_ms",
    "write_timeout_s",
    "zero_expiration_override_ms",
    *WireOptions.MAY_BE_ZERO,
)
_ON_STORE_FAILURE: Final = ("suspend", "stop", "ignore")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions(WireOptions):
    """How a broker behaves, and with `WireOptions` how its clients are listened to. Names end in their unit; sizes are
    bytes.

    Args:
        bind: where to listen, ``HOST:PORT`` or ``SCHEME://HOST:PORT``; port 0 lets the system choose. ``stomp`` is what
            it is without a scheme; ``openwire`` (``tcp``, ``nio``); ``auto`` is either of them, as the client's first
            bytes tell; ``ws`` is STOMP over WebSocket. With TLS, which needs `TlsOptions`, they are ``stomp+ssl``,
            ``openwire+ssl`` (``ssl``), ``auto+ssl`` and ``wss``. Several have commas or blanks between them.
        broker_name: the broker's name in log lines and in errors to clients.
        users: login → passcode, in plain or as `jdbcstore user hash` prints it. None lets everybody in and looks at no
            login, unless there is a `users_file`.
        groups: group → logins with commas between; for authorisation.
        users_file, groups_file: the same in Java property files, which are read again when they change.
        certificate_users_file: a Java property file, login → subject of the client's certificate, as ActiveMQ's
            certificate login module has it; such a client needs no passcode. Groups are in `groups_file`.
        anonymous_access_allowed: with users, also let in who gives neither login nor passcode.
        anonymous_user, anonymous_group: what such a client is called, and the group that it has.
        login_delay_max_s: the longest wait before an attempt to log in is looked at, after failed ones.
        login_remember_s: how long a right login is let in again without hashing; 0 is not at all.
        connections_max: clients at the same time; the next one is answered with an ERROR and closed.
        connections_per_address_max: the same for clients of one address.
        backlog_max: clients that may wait to be accepted.
        connect_timeout_s: how long a client may take to send CONNECT.
        stop_timeout_s: how long a stop waits for what is in flight.
        health_bind: where to answer health checks (HTTP, ``/live`` and ``/ready``), ``HOST:PORT``; empty is nowhere.
        web_bind: where operators find console, JSON API, metrics and what other tools ask for (HTTP), ``HOST:PORT``;
            empty is nowhere. It needs the extra ``web``.
        web_token_file: a file with one line, the token by which programs may do everything there. Without it, and
            without users, a new one is made at each start.
        web_hosts: names by which `web_bind` is reached besides its address, with commas; ``*`` for any, behind a proxy.
        log_events: what clients do that is to be logged, line by line: words of ``connections``, ``consumers``,
            ``producers``, ``transactions`` and ``internal`` with commas or blanks between them, see
            `jdbcstore.broker.event_log` (ActiveMQ: ``loggingBrokerPlugin``).
        tracing: follow messages with OpenTelemetry: spans of send, commit, deliver and ack. It needs the extra
            ``otel``, and is set up by the environment (``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_TRACES_SAMPLER``, …), or
            by the program that has the broker inside of it.

        start_timeout_s: how long to go on asking a store that cannot be reached when the process starts; later on a
            broker asks for ever.
        on_lease_lost: what to do when another broker has become master: ``standby`` waits for the next turn, ``stop``
            ends the process.
        on_store_failure: what to do when the store is gone or of unknown state: ``suspend`` drops all clients and goes
            on as soon as the store is back and we are still master (ActiveMQ: ``leaseLockerIOExceptionHandler``),
            ``stop`` ends the process, ``ignore`` answers each send with an ERROR and keeps the clients.
        resume_check_sleep_s: the longest pause between two attempts to go on (ActiveMQ: ``resumeCheckSleepPeriod``).

        keep_alive: let TCP ask clients that say nothing whether their machine is still there (ActiveMQ:
            ``transport.keepAlive``, false there).
        keep_alive_idle_s, keep_alive_interval_s: after how much silence for the first time, and when again.
        peer_timeout_s: how long a client's machine may leave something unanswered before the connection is given up; 0
            leaves it to the system, which takes a quarter of an hour.
        silence_max_s: a client without heart-beats that holds messages, or a transaction, and says nothing for so long
            is disconnected; 0 is never. Who holds nothing may be silent for ever.
        write_timeout_s: a client that takes nothing of what waits for it for so long is disconnected; 0 is never
            (ActiveMQ: ``transport.soWriteTimeout``).
        allow_link_stealing: a new connection takes the client id from the one that has it, which is closed (ActiveMQ:
            ``allowLinkStealing``). Otherwise only from one that does not answer.
        probe_timeout_s: how long that one has to answer; at least 2, because TCP asks after a second.

        prefetch_queue, prefetch_topic, prefetch_durable_topic, prefetch_browser: messages a subscription may hold
            unacknowledged unless it asks for another number by ``activemq.prefetchSize``.
        prefetch_max: the largest number a subscription may ask for.
        subscriptions_max: subscriptions of one connection.
        producers_max: producers of one connection, those of OpenWire clients.
        temporary_destinations_max: temporary destinations of one connection.
        composite_parts_max: destinations that one SEND or SUBSCRIBE may name, with commas between them.
        destinations_max: queues and topics that clients may have the broker remember. Those in the store are always
            served, and those that nobody uses are forgotten before anybody is refused.

        window_messages_max, window_bytes_max: what one queue keeps ready in memory of its persistent, and again of its
            non-persistent messages; the rest stays in the store. More than four pages are kept only of what has just
            come, and while there is plenty of memory.
        page_messages_max, page_bytes_max: what one read of the store fetches.
        memory_bytes_max: what clients can make the broker keep in memory: messages, a half; open transactions,
            subscriptions and unfinished frames, a quarter; what is on its way to the store, a quarter. At the limit who
            causes it waits or gets an ERROR; see `jdbcstore.broker.memory`.
        connection_bytes_max: bytes that one connection may keep for all that it has open: transactions, subscriptions,
            producers, temporary destinations, cached values.
        memory_timeout_s: how long a large frame may take while others wait for memory.
        in_flight_bytes_max: message bytes that one queue remembers of unacknowledged messages; of others it remembers
            the id and reads the message again when it has to be delivered again.
        concurrent_store_and_dispatch_queues: offer a message to consumers while it is being stored. Its sender gets the
            receipt after the commit in any case.
        persist_jms_redelivered: let the store know of each delivery of a persistent message before it is made, so that
            what comes again is flagged as redelivered even after a crash (ActiveMQ: ``persistJMSRedelivered``). Each
            message is written twice then.
        slow_callback_ms: what holds the event loop for longer, so that no client is served, is told in the log, with
            what it was doing.
        redelivery_writes_max: of the messages of one queue that a consumer gives back, how many have their count
            written to the store; of the others it is kept in memory.
        idle_queue_timeout_s: an empty queue that nobody used for so long is dropped from memory.

        uncommitted_bytes_max: message bytes that one connection may have sent without the store having answered;
            beyond it the broker stops reading from the connection.
        transaction_messages_max, transaction_bytes_max: what one transaction may hold.
        transactions_max: open transactions of one connection.
        output_bytes_max: bytes that may wait for a client that does not read; beyond it the broker stops reading from
            it.
        topic_pending_max, topic_pending_bytes_max: messages that wait for a topic subscriber that does not keep up;
            beyond it its publishers are held back.
        slow_consumer_timeout_s: how long a topic subscriber may hold its publishers back before it is disconnected.

        offline_durable_subscriber_timeout_s: a durable subscription that no client has used for so long is removed with
            what waits for it; 0 is never (ActiveMQ: ``offlineDurableSubscriberTimeout``). Restarts begin to count anew.
        offline_durable_subscriber_task_schedule_s: how often that is looked at (ActiveMQ:
            ``offlineDurableSubscriberTaskSchedule``).
        reject_durable_consumers: nobody may use durable subscriptions; those that are there can be removed (ActiveMQ:
            ``rejectDurableConsumers``).

        use_virtual_topics: copy what is published to ``VirtualTopic.X`` to every known queue
            ``Consumer.*.VirtualTopic.X`` (ActiveMQ: ``useVirtualTopics``).
        populate_jmsx_user_id: each message that a client sends says who has sent it, in ``JMSXUserID``: the user that
            has logged in, whatever the client writes there; nobody where nobody has to log in (ActiveMQ:
            ``populateJMSXUserID``).
        time_stamping: a message was sent when it came, by the broker's clock, unless its sender gives it no time, and
            lives from then on as long as it was to live (ActiveMQ: ``timeStampingBrokerPlugin``).
        zero_expiration_override_ms: how long such a message lives that was to live for ever; 0 is for ever.
        ttl_ceiling_ms: how long such a message lives at most; 0 is without a limit.
        time_stamping_future_only: leave a message alone that would expire earlier than its sender says.
        force_persistent: every message is persistent, whatever its sender says, but for those to temporary destinations
            (ActiveMQ: ``forcePersistencyModeBroker``).

        dead_letter_queue: where refused (NACK) and expired persistent messages go.

        statistics_support: answer messages to ``ActiveMQ.Statistics.…`` that have a ``reply-to``, instead of keeping
            them (ActiveMQ: ``statisticsBrokerPlugin``); see `jdbcstore.broker.statistics`.

        scheduler_support: keep messages for later that ask for it with ``AMQ_SCHEDULED_DELAY``, ``…_PERIOD``,
            ``…_REPEAT`` or ``…_CRON``; else these properties mean nothing (ActiveMQ: ``schedulerSupport``, false
            there).
        scheduled_jobs_max: how many messages may be kept for later.
        schedule_horizon_days: how far ahead they may be due.
    """

    bind: str = "127.0.0.1:61613"
    broker_name: str = "localhost"
    users: Mapping[str, str] | None = field(default=None, repr=False)
    groups: Mapping[str, str] | None = None
    users_file: str = ""
    groups_file: str = ""
    certificate_users_file: str = ""
    anonymous_access_allowed: bool = False
    anonymous_user: str = "anonymous"
    anonymous_group: str = "anonymous"
    login_delay_max_s: float = 5.0
    login_remember_s: float = 60.0
    connections_max: int = 10_000
    connections_per_address_max: int = 5000
    backlog_max: int = 1024
    connect_timeout_s: float = 10.0
    stop_timeout_s: float = 10.0
    health_bind: str = ""
    web_bind: str = ""
    web_token_file: str = ""
    web_hosts: str = ""
    log_events: str = ""
    tracing: bool = False

    start_timeout_s: float = 30.0
    on_lease_lost: str = "standby"
    on_store_failure: str = "suspend"
    resume_check_sleep_s: float = 1.0

    keep_alive: bool = True
    keep_alive_idle_s: int = 20
    keep_alive_interval_s: int = 5
    peer_timeout_s: float = 30.0
    silence_max_s: float = 4 * 3600.0
    write_timeout_s: float = 0.0
    allow_link_stealing: bool = False
    probe_timeout_s: float = 3.0

    prefetch_queue: int = 1000
    prefetch_topic: int = 32_767
    prefetch_durable_topic: int = 100
    prefetch_browser: int = 500
    prefetch_max: int = 100_000
    subscriptions_max: int = 10_000
    producers_max: int = 100_000
    temporary_destinations_max: int = 1000
    composite_parts_max: int = 100
    destinations_max: int = 20_000

    window_messages_max: int = 20_000
    window_bytes_max: int = 32 * _MIB
    page_messages_max: int = 500
    page_bytes_max: int = 4 * _MIB
    memory_bytes_max: int = 256 * _MIB
    connection_bytes_max: int = 64 * _MIB
    memory_timeout_s: float = 30.0
    in_flight_bytes_max: int = 32 * _MIB
    concurrent_store_and_dispatch_queues: bool = True
    persist_jms_redelivered: bool = False
    slow_callback_ms: int = 100
    redelivery_writes_max: int = 100
    idle_queue_timeout_s: float = 60.0

    uncommitted_bytes_max: int = 8 * _MIB
    transaction_messages_max: int = 100_000
    transaction_bytes_max: int = 64 * _MIB
    transactions_max: int = 100
    output_bytes_max: int = 4 * _MIB
    topic_pending_max: int = 10_000
    topic_pending_bytes_max: int = 16 * _MIB
    slow_consumer_timeout_s: float = 30.0

    offline_durable_subscriber_timeout_s: float = 0.0
    offline_durable_subscriber_task_schedule_s: float = 300.0
    reject_durable_consumers: bool = False

    use_virtual_topics: bool = True
    populate_jmsx_user_id: bool = False
    time_stamping: bool = False
    zero_expiration_override_ms: int = 0
    ttl_ceiling_ms: int = 0
    time_stamping_future_only: bool = False
    force_persistent: bool = False

    dead_letter_queue: str = "ActiveMQ.DLQ"

    statistics_support: bool = False

    scheduler_support: bool = True
    scheduled_jobs_max: int = 1_000_000
    schedule_horizon_days: int = 3660

    @property
    def paged_messages_max(self) -> int:
        """How long pages keep the window of a queue."""
        return min(self.window_messages_max, 4 * self.page_messages_max)

    @property
    def logged_events(self) -> frozenset[str]:
        """The words of `log_events`."""
        return frozenset(self.log_events.replace(",", " ").split())

    def __post_init__(self) -> None:
        parse_listeners(self.bind)
        WireOptions.__post_init__(self)
        for address in filter(None, (self.health_bind, self.web_bind)):
            parse_address(address)
        if unknown := self.logged_events.difference(EVENTS):
            raise ConfigurationError(f"log_events knows {', '.join(EVENTS)}, no {min(unknown)!r}")
        for name, known in (("on_lease_lost", _ON_LEASE_LOST), ("on_store_failure", _ON_STORE_FAILURE)):
            if getattr(self, name) not in known:
                raise ConfigurationError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")
        check_dead_letter_queue(self.dead_letter_queue)
        for option in fields(self):
            value = getattr(self, option.name)
            if option.type == "int" and option.name not in _MAY_BE_ZERO and (type(value) is not int or value < 1):
                raise ConfigurationError(f"{option.name} must be a whole number of at least 1, got {value!r}")
            if option.name in _MAY_BE_ZERO:
                if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
                    raise ConfigurationError(f"{option.name} must be a number of at least 0, got {value!r}")
            elif option.type == "float" and (not isinstance(value, int | float) or not value > 0):
                raise ConfigurationError(f"{option.name} must be a number greater than 0, got {value!r}")
            if option.type == "bool" and not isinstance(value, bool):
                raise ConfigurationError(f"{option.name} must be true or false, got {value!r}")
        if self.probe_timeout_s < 2:
            raise ConfigurationError(f"probe_timeout_s must be at least 2, got {self.probe_timeout_s!r}")
        if self.page_messages_max > self.window_messages_max:
            raise ConfigurationError("page_messages_max must not be larger than window_messages_max")


def open_files_max(wanted: int) -> int:
    """Raise this process' limit of open files towards `wanted`; returns what it is then. Each client takes one."""
    if sys.platform == "win32":
        return wanted
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    goal = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < goal:
        resource.setrlimit(resource.RLIMIT_NOFILE, (goal, hard))
        return goal
    return wanted if soft == resource.RLIM_INFINITY else soft


def check_dead_letter_queue(name: str) -> None:
    """Raise ConfigurationError if no store can keep dead letters in a queue of this name: they would be lost."""
    if not Queue(name).is_storable:
        raise ConfigurationError(
            f"dead_letter_queue has to be one queue, of {QUALIFIED_NAME_MAX} characters with its prefix, and without"
            f" control characters, got {name!r}"
        )
