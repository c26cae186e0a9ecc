"""``jdbcstore broker``: run a broker until it is told to stop."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from jdbcstore.addresses import Listener, Protocol, parse_listeners
from jdbcstore.broker.lifecycle import State, Status
from jdbcstore.broker.runner import serve
from jdbcstore.config.build import build_broker
from jdbcstore.config.configuration import FORMATS, LEVELS, Configuration
from jdbcstore.config.files import load_configuration
from jdbcstore.config.logs import set_up_logs
from jdbcstore.config.urls import shown_url
from jdbcstore.console.output import print_nowhere
from jdbcstore.errors import ConfigurationError

if TYPE_CHECKING:
    from jdbcstore.transport.web.server import WebServer

__all__ = ["broker"]

log = logging.getLogger(__name__)

_CLIENTS: Final = {
    Protocol.STOMP: "STOMP",
    Protocol.OPENWIRE: "OpenWire",
    Protocol.AUTO: "STOMP and OpenWire",
    Protocol.WS: "WebSocket",
}


@click.command()
@click.option("--url", envvar="JDBCSTORE_URL", help="The store. [default: sqlite:///data/jdbcstore.db]")
@click.option(
    "--bind",
    "binds",
    envvar="JDBCSTORE_BIND",
    multiple=True,
    metavar="[SCHEME://]HOST[:PORT]",
    help="Where to listen, and for what: stomp (the default), openwire, auto (either of them) or ws; with TLS"
    " stomp+ssl, openwire+ssl, auto+ssl or wss. May be repeated. [default: 127.0.0.1:61613]",
)
@click.option("--tls-certificate", metavar="FILE", help="For TLS: the certificate with its chain, PEM or PKCS#12.")
@click.option("--tls-key", metavar="FILE", help="The certificate's key, if it is in a file of its own.")
@click.option("--tls-ca", metavar="FILE", help="Who signs the certificates that clients need then.")
@click.option(
    "--config",
    envvar="JDBCSTORE_CONFIG",
    type=click.Path(path_type=Path),
    help="ActiveMQ's activemq.xml, or a TOML file with tables [broker], [broker.users], [store], [io_exception_handler]"
    " and [log]; options given here go before it.",
)
@click.option(
    "--user",
    "users",
    multiple=True,
    metavar="LOGIN:PASSCODE",
    help="Let this user in, and nobody else; for trying things. May be repeated. Without any and without a users_file,"
    " see `jdbcstore user`, everybody may log in.",
)
@click.option("--anonymous", is_flag=True, help="With --user: let in who names no login, too.")
@click.option("--name", "broker_name", help="The broker's name, for log lines, errors and the lock.")
@click.option(
    "--health-bind",
    envvar="JDBCSTORE_HEALTH_BIND",
    metavar="HOST:PORT",
    help="Where to answer health checks: GET /live, and GET /ready for the master alone. [default: nowhere]",
)
@click.option(
    "--web-bind",
    envvar="JDBCSTORE_WEB_BIND",
    metavar="HOST:PORT",
    help="Where operators find the console, the JSON API and metrics; needs jdbcstore[web]. [default: nowhere]",
)
@click.option(
    "--web-token-file",
    envvar="JDBCSTORE_WEB_TOKEN_FILE",
    metavar="FILE",
    help="A file with the token by which programs may do everything there.",
)
@click.option("--log-level", type=click.Choice(LEVELS), help="[default: info]")
@click.option("--log-format", type=click.Choice(FORMATS), help="[default: text]")
def broker(
    url: str | None,
    binds: tuple[str, ...],
    tls_certificate: str | None,
    tls_key: str | None,
    tls_ca: str | None,
    config: Path | None,
    users: tuple[str, ...],
    anonymous: bool,
    broker_name: str | None,
    health_bind: str | None,
    web_bind: str | None,
    web_token_file: str | None,
    log_level: str | None,
    log_format: str | None,
) -> None:
    """Run a broker until SIGTERM or SIGINT.

    Persistent messages to queues are in the store before their sender gets a receipt, and stay there until a consumer
    has acknowledged them. The store may be one that Apache ActiveMQ filled.

    Brokers on one store are master and standby: one serves, the others wait for their turn. Exit codes: 0 after a
    signal, 1 it failed, 2 the configuration is wrong, 3 another broker is master and the options say that this is the
    end.

    \b
    Examples:
        jdbcstore broker
        jdbcstore broker --bind 0.0.0.0:61613 --user admin:secret
        jdbcstore broker --bind stomp://0.0.0.0 --bind openwire://0.0.0.0
        jdbcstore broker --bind stomp+ssl://0.0.0.0:61614 --tls-certificate broker.pem --tls-key broker.key
        jdbcstore broker --url postgresql://activemq:secret@db/activemq --log-format json
        jdbcstore broker --config /etc/jdbcstore.toml
        jdbcstore broker --config /opt/activemq/conf/activemq.xml

    Stores: sqlite:///FILE, postgresql://…, mysql://…, mariadb://…, kahadb:DIRECTORY, mkahadb:DIRECTORY, amq:DIRECTORY,
    leveldb:DIRECTORY, memory:
    """
    bind = " ".join(binds)
    overridden = {name for name, value in (("store.url", url), ("broker.bind", bind), ("broker.users", users)) if value}
    loaded = load_configuration(config, os.environ, overridden)
    configuration = loaded.checked()
    given_broker: dict[str, Any] = {
        "bind": bind,
        "broker_name": broker_name,
        "health_bind": health_bind,
        "web_bind": web_bind,
        "web_token_file": web_token_file,
        "users": dict(map(_user, users)) or None,
        "anonymous_access_allowed": anonymous,
    }
    given_tls: dict[str, Any] = {
        "certificate": tls_certificate,
        "key": tls_key,
        "ca": tls_ca,
        "client_certificate": "required" if tls_ca and configuration.tls.client_certificate == "none" else None,
    }
    given_log: dict[str, Any] = {"level": log_level, "format": log_format}
    configuration = replace(
        configuration,
        url=url or configuration.url,
        broker=replace(configuration.broker, **{name: value for name, value in given_broker.items() if value}),
        tls=replace(configuration.tls, **{name: value for name, value in given_tls.items() if value}),
        log=replace(configuration.log, **{name: value for name, value in given_log.items() if value}),
    )
    if users:  # go before a file of users, too
        own = replace(configuration.broker, users_file="", groups_file="")
        configuration = replace(configuration, broker=own)
    set_up_logs(configuration.log)
    for warning in loaded.warnings:
        log.warning("%s", warning)

    the_broker = build_broker(configuration)

    def tell(status: Status) -> None:
        if status.state is State.MASTER:
            _welcome(configuration, the_broker.addresses, has_users=the_broker.authentication is not None)
            _show_console(the_broker.web)
        elif status.state is State.STANDBY:
            click.echo(f"jdbcstore is standby: {status.reason}")

    def told(status: Status) -> None:
        try:
            tell(status)
        except OSError as error:  # a full disk, or who read it is gone: no reason to serve nobody
            log.warning("standard output cannot be written, nothing is printed any more error=%r", str(error))
            print_nowhere()

    serve(the_broker, told)


def _user(text: str) -> tuple[str, str]:
    login, colon, passcode = text.partition(":")
    if not colon or not login:
        raise ConfigurationError("--user needs LOGIN:PASSCODE")
    return login, passcode


def _welcome(configuration: Configuration, addresses: list[tuple[str, int]], *, has_users: bool) -> None:
    listeners = [
        replace(listener, host=host, port=port)
        for listener, (host, port) in zip(parse_listeners(configuration.broker.bind), addresses, strict=True)
    ]
    shown = ", ".join(
        f"for {name} clients on {' and '.join(map(_shown, of))}"
        for protocol, name in _CLIENTS.items()
        if (of := [listener for listener in listeners if listener.protocol is protocol])
    )
    click.echo(f"jdbcstore listens {shown}, store {shown_url(configuration.url)}")
    first = next((listener for listener in listeners if listener.protocol in (Protocol.STOMP, Protocol.AUTO)), None)
    if first is not None:
        _show_first_steps(first, has_users=has_users)
    click.echo("  stop:           Ctrl-C or SIGTERM")


def _show_first_steps(listener: Listener, *, has_users: bool) -> None:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listener.host, listener.host)
    place = replace(listener, host=host).address
    more = " --tls-ca CA-FILE" if listener.is_tls else ""
    more += " --login LOGIN" if has_users else ""
    program = _program()
    click.echo(f'  first message:  {program} send {place} /queue/HELLO "hello, world"{more}')
    click.echo(f"  and get it:     {program} receive {place} /queue/HELLO --count 1{more}")


def _program() -> str:
    """What runs this program again: by its name if that is on the path, else by where it is."""
    here = Path(sys.argv[0])
    if here.suffix == ".py":  # a module was run
        return f"{shlex.quote(sys.executable)} -m jdbcstore"
    found = shutil.which(here.name)
    try:
        if found is not None and Path(found).resolve() == here.resolve():
            return here.name
        path = here.absolute()
        return shlex.quote(str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path))
    except FileNotFoundError:  # the working directory has been removed
        return shlex.quote(str(here))


def _show_console(web: WebServer | None) -> None:
    if web is not None:
        token = "" if web.token is None else f", to act there log in with the token {web.token}"
        click.echo(f"  look at it:     {web.url}{token}")


def _shown(listener: Listener) -> str:
    return listener.address + (" (TLS)" if listener.is_tls else "")
