"""``jdbcstore send`` and ``jdbcstore receive``: trying a broker by hand."""

from __future__ import annotations

import ssl
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TextIO

import click

from jdbcstore.addresses import parse_address
from jdbcstore.console.face import TOKEN_OPTIONS, credentials, opened_face
from jdbcstore.console.output import print_json
from jdbcstore.console.passcode import PASSCODE_OPTIONS, given_passcode
from jdbcstore.console.place import is_web_address
from jdbcstore.console.stomp_client import ClientError, StompClient
from jdbcstore.destination import Destination, Queue, Topic, parse_destination
from jdbcstore.errors import ConfigurationError
from jdbcstore.stomp.frames import Frame
from jdbcstore.transport.key_files import load_identity, load_trusted
from jdbcstore.transport.stomp.destination import destination_header, parse_stomp_destination

__all__ = ["receive", "send"]


def _login(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of both commands."""
    for option in (
        click.option("--tls-key", metavar="FILE", help="Its key, if that has a file of its own."),
        click.option("--tls-certificate", metavar="FILE", help="A certificate that tells the broker who we are."),
        click.option("--tls-ca", metavar="FILE", help="Whom to trust instead of the system's authorities; with TLS."),
        click.option("--tls", is_flag=True, help="Connect with TLS; stomp+ssl://HOST:PORT and https://… do the same."),
        *reversed(PASSCODE_OPTIONS),
    ):
        command = option(command)
    return command


def _token(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of who sends by the broker's web address."""
    for option in reversed(TOKEN_OPTIONS):
        command = option(command)
    return command


def _tls_context(
    *, tls: bool, tls_ca: str | None, tls_certificate: str | None, tls_key: str | None
) -> ssl.SSLContext | None:
    """Whom to trust, and who we are, as these options say; None if none was given."""
    if tls_key and not tls_certificate:
        raise ConfigurationError("--tls-key is the key of a certificate: give --tls-certificate, too")
    if not (tls or tls_ca or tls_certificate):
        return None
    context = ssl.create_default_context()
    if tls_ca:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        load_trusted(context, tls_ca)
    if tls_certificate:
        load_identity(context, tls_certificate, tls_key or "")
    return context


def _connected(
    address: str, *, login: str | None, passcode: str | None, passcode_file: TextIO | None, tls: bool, **files: Any
) -> StompClient:
    """A connection, as these options say."""
    scheme, _, place = address.rpartition("://")
    if scheme not in ("", "stomp", "stomp+ssl"):
        raise ConfigurationError(f"cannot connect to {address}: give HOST:PORT, or stomp+ssl://HOST:PORT for TLS")
    host, port = parse_address(place)
    context = _tls_context(tls=tls or scheme == "stomp+ssl", **files)
    shown = given_passcode(login, passcode, passcode_file)
    return StompClient(host, port, login=login, passcode=shown, tls=context)


@click.command()
@click.argument("address", metavar="HOST:PORT|http[s]://HOST:PORT")
@click.argument("destination")
@click.argument("body", nargs=-1)
@click.option("--header", "-H", "headers", multiple=True, metavar="NAME:VALUE", help="A header; may be repeated.")
@click.option("--transient", is_flag=True, help="Do not ask the broker to keep the message through a restart.")
@click.option("--count", type=click.IntRange(min=1), default=1, show_default=True, help="Send it so many times.")
@_login
@_token
def send(
    address: str,
    destination: str,
    body: tuple[str, ...],
    headers: tuple[str, ...],
    transient: bool,
    count: int,
    token: str | None,
    token_file: Path | None,
    **access: Any,
) -> None:
    """Send BODY to DESTINATION and wait until the broker has it. Without BODY the text is read from standard input.

    HOST:PORT is where STOMP clients connect. At the broker's web address it is done as an operator, who needs no
    client's rights. DESTINATION is /queue/NAME or queue://NAME, /topic/NAME or topic://NAME.

    \b
    Examples:
        jdbcstore send 127.0.0.1:61613 /queue/HELLO "hello, world"
        jdbcstore send 127.0.0.1:61613 /topic/PRICES -H type:quote 42.17 --transient
        jdbcstore send 127.0.0.1:61613 /queue/FILES < document.xml
        jdbcstore send broker.example:61614 /queue/HELLO "hello, world" --tls-ca ca.pem
        jdbcstore send 127.0.0.1:61613 /queue/HELLO "hello, world" --login bob --passcode-file bob.secret
        jdbcstore send http://127.0.0.1:8161 queue://HELLO "hello, world" -H priority:9 --token-file token
    """
    fields = dict(map(_header, headers))
    if not body and getattr(access["passcode_file"], "name", "") == sys.stdin.name:
        raise ConfigurationError("standard input cannot be both the passcode and the message: give BODY, or a file")
    text = " ".join(body).encode() if body else sys.stdin.buffer.read()
    if is_web_address(address):
        given = _as_operator_sends(fields, destination, text) | {"persistent": not transient}
        who = {name: access.pop(name) for name in ("login", "passcode", "passcode_file")}
        with opened_face(
            address, credentials(token=token, token_file=token_file, **who), _tls_context(**access)
        ) as face:
            for _ in range(count):
                face.act("send", **given)
        click.echo(f"sent {count} to {destination}", err=True)
        return
    if not transient:
        fields["persistent"] = "true"
    if b"\x00" in text:
        fields["content-length"] = str(len(text))
    fields["destination"] = _stomp_name(destination)
    with _connected(address, **access) as client:
        for _ in range(count):
            client.request("SEND", fields, text)
    click.echo(f"sent {count} to {destination}", err=True)


#: Headers of STOMP with a meaning, by the names that the management face has for them; others are properties.
_OF_OPERATORS: Final = {
    "priority": "priority",
    "expires": "expiration_ms",
    "type": "type",
    "correlation-id": "correlation_id",
    "JMSXGroupID": "group",
    "reply-to": "reply_to",
}


def _as_operator_sends(headers: Mapping[str, str], destination: str, body: bytes) -> dict[str, Any]:
    """A message as the action ``send`` of the management face takes it."""
    given: dict[str, Any] = {"destination": _qualified(destination)}
    given |= {name: headers[header] for header, name in _OF_OPERATORS.items() if header in headers}
    given["properties"] = {name: value for name, value in headers.items() if name not in _OF_OPERATORS}
    if "reply_to" in given:
        given["reply_to"] = _qualified(given["reply_to"])
    try:
        given["body"] = body.decode()
    except UnicodeDecodeError:
        given["body_hex"] = body.hex()
    return given


def _qualified(name: str) -> str:
    """A destination by the name that STOMP clients have for it, or by its own."""
    if not name.startswith("/"):
        return name

    def refused(temporary: str) -> Destination:
        raise ConfigurationError(f"{temporary} is a destination of one connection: give another")

    return parse_stomp_destination(name, refused).qualified_name


def _stomp_name(destination: str) -> str:
    """A destination by the name that STOMP clients have for it. Given as the other commands have it, ``queue://A``,
    STOMP would take it for a queue whose name begins with ``queue:``."""
    if not destination.strip().startswith((Queue.prefix, Topic.prefix)):
        return destination
    return destination_header(parse_destination(destination), {})


@click.command()
@click.argument("address", metavar="HOST:PORT")
@click.argument("destination")
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many messages. [default: never]")
@click.option("--timeout", "timeout_s", type=float, help="Stop when no message comes for so many seconds.")
@click.option("--browse", is_flag=True, help="Only look: the messages stay in the queue.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per message, with its headers.")
@_login
def receive(
    address: str,
    destination: str,
    count: int | None,
    timeout_s: float | None,
    browse: bool,
    as_json: bool,
    **access: Any,
) -> None:
    """Receive messages from DESTINATION, /queue/NAME or queue://NAME, /topic/NAME or topic://NAME, and print their
    bodies. Each one is acknowledged after it was printed.

    \b
    Examples:
        jdbcstore receive 127.0.0.1:61613 /queue/HELLO --count 1
        jdbcstore receive 127.0.0.1:61613 /queue/HELLO --browse --json
        jdbcstore receive 127.0.0.1:61613 '/topic/PRICES.>' --timeout 10
    """
    headers = {"destination": _stomp_name(destination), "id": "1", "ack": "auto" if browse else "client-individual"}
    if browse:
        headers["browser"] = "true"
    elif count is not None:
        # Not one message more than asked for comes here: it would go back as if it had been looked at.
        headers["activemq.prefetchSize"] = "1"
    with _connected(address, **access) as client:
        client.request("SUBSCRIBE", headers)
        got = 0
        while True:
            frame = _next(client, timeout_s, got)
            if frame is None or frame.headers.get("browser") == "end":
                client.disconnect()
                return
            _print(frame, as_json)
            got += 1
            if got == count:
                client.disconnect(None if browse else frame.headers["ack"])
                return
            if not browse:
                client.send("ACK", {"id": frame.headers["ack"]})


def _next(client: StompClient, timeout_s: float | None, got: int) -> Frame | None:
    """The next message, None when none comes in time but some came before."""
    client.set_timeout(timeout_s)
    started_s = time.monotonic()
    try:
        return client.expect("MESSAGE")
    except ClientError:
        if timeout_s is not None and got and time.monotonic() - started_s >= timeout_s:
            return None
        raise
    finally:
        client.set_timeout(10.0)


def _print(frame: Frame, as_json: bool) -> None:
    if as_json:
        print_json({"headers": frame.headers, "body": frame.body.decode("utf-8", "backslashreplace")})
    else:
        sys.stdout.buffer.write(frame.body + b"\n")
        sys.stdout.buffer.flush()


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name:
        raise ConfigurationError(f"--header needs NAME:VALUE, got {text!r}")
    return name, value
