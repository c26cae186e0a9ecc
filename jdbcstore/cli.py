"""The command line: ``jdbcstore COMMAND``. Each command lives in `jdbcstore.console` and is imported when it is used.

Exit codes: 0 done, 1 it failed (the store, the network), 2 the command or the configuration is wrong, 3 another broker
is master.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Final

import click

from jdbcstore.console.command_line import hide_secrets, secrets_in
from jdbcstore.errors import ConfigurationError, JdbcStoreError, LockError
from jdbcstore.spelling import did_you_mean
from jdbcstore.version import VERSION

__all__ = ["main"]

#: What Python says when the system gives it none.
_NO_THREAD: Final = "can't start new thread"
#: Command → where it is.
_COMMANDS: Final = {
    "broker": "jdbcstore.console.broker:broker",
    "config": "jdbcstore.console.config:config",
    "send": "jdbcstore.console.client:send",
    "receive": "jdbcstore.console.client:receive",
    "browse": "jdbcstore.console.browse:browse",
    "queues": "jdbcstore.console.views:queues",
    "topics": "jdbcstore.console.views:topics",
    "connections": "jdbcstore.console.views:connections",
    "producers": "jdbcstore.console.views:producers",
    "subscriptions": "jdbcstore.console.views:subscriptions",
    "store": "jdbcstore.console.state:store",
    "log": "jdbcstore.console.state:log",
    "watch": "jdbcstore.console.views:watch",
    "top": "jdbcstore.console.views:top",
    "move": "jdbcstore.console.actions:move",
    "copy": "jdbcstore.console.actions:copy",
    "retry": "jdbcstore.console.actions:retry",
    "change": "jdbcstore.console.actions:change",
    "purge": "jdbcstore.console.actions:purge",
    "delete": "jdbcstore.console.actions:delete",
    "pause": "jdbcstore.console.actions:pause",
    "resume": "jdbcstore.console.actions:resume",
    "create": "jdbcstore.console.actions:create",
    "unsubscribe": "jdbcstore.console.actions:unsubscribe",
    "disconnect": "jdbcstore.console.actions:disconnect",
    "drain": "jdbcstore.console.actions:drain",
    "hand-over": "jdbcstore.console.actions:hand_over",
    "operations": "jdbcstore.console.state:operations",
    "cancel": "jdbcstore.console.actions:cancel",
    "export": "jdbcstore.console.archives:export",
    "import": "jdbcstore.console.archives:import_",
    "activemq": "jdbcstore.console.activemq:activemq",
    "completion": "jdbcstore.console.completion:completion",
    "user": "jdbcstore.console.user:user",
    "stats": "jdbcstore.console.stats:stats",
    "schema": "jdbcstore.console.schema:schema",
    "lock": "jdbcstore.console.lock:lock",
    "loads": "jdbcstore.console.loads:loads",
    "outbox": "jdbcstore.console.outbox:outbox",
    "journal": "jdbcstore.console.journal:journal",
    "kahadb": "jdbcstore.console.kahadb:kahadb",
    "schedule": "jdbcstore.console.schedule:schedule",
    "transactions": "jdbcstore.console.transactions:transactions",
    "migrate": "jdbcstore.console.migrate:migrate",
    "pipeline": "jdbcstore.console.pipeline:pipeline",
}


class _Commands(click.Group):
    """Commands that are imported when somebody asks for them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = _COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _COMMANDS and not ctx.resilient_parsing and (hint := did_you_mean(args[0], _COMMANDS, 0.6)):
            ctx.fail(f"No such command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, prog_name="jdbcstore")
def cli() -> None:
    """A durable message broker on SQL that uses Apache ActiveMQ's tables and bytes.

    \b
    Start a broker on a SQLite file, ready for STOMP clients:
        jdbcstore broker
    Try it, in another terminal:
        jdbcstore send 127.0.0.1:61613 /queue/HELLO "hello, world"
        jdbcstore receive 127.0.0.1:61613 /queue/HELLO --count 1
    Operate a running broker that has --web-bind:
        jdbcstore queues
        jdbcstore retry --dry-run
    Look into a store, whether a broker runs on it or not:
        jdbcstore stats sqlite:///data/jdbcstore.db
        jdbcstore browse sqlite:///data/jdbcstore.db queue://HELLO
    """


def main() -> None:
    """Entry point of the ``jdbcstore`` program."""
    _open_standard_streams()
    if "_JDBCSTORE_COMPLETE" in os.environ:  # a shell asks what may come next
        cli.main(prog_name="jdbcstore")
    secrets = secrets_in(sys.argv)
    if secrets and not hide_secrets(secrets):
        click.echo(
            "jdbcstore: others on this machine can see the password in the process list; give it by a file or the"
            " environment, see docs/security.md",
            err=True,
        )
    sys.exit(run(sys.argv[1:]))


def _open_standard_streams() -> None:
    """Open those that the caller has closed: else a file or a socket gets the number, what is printed goes there, and
    libuv aborts the process when it closes it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115  # it is for ever


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code. Errors become one clear line on standard error."""
    try:
        result = cli.main(arguments, prog_name="jdbcstore", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        return 1
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except ConfigurationError as error:
        click.echo(f"jdbcstore: {error}", err=True)
        return 2
    except LockError as error:
        click.echo(f"jdbcstore: {error}", err=True)
        return 3
    except JdbcStoreError as error:
        click.echo(f"jdbcstore: {error}", err=True)
        return 1
    except OSError as error:
        told = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        if isinstance(error, FileNotFoundError) and not error.filename:  # asking where we are names no file
            told = "the working directory has been removed: go to another one, or name the store by an absolute path"
        click.echo(f"jdbcstore: {told}", err=True)
        return 1
    except RuntimeError as error:
        if str(error) != _NO_THREAD:
            raise
        click.echo(
            f"jdbcstore: {error}: raise the limit (ulimit -u, pids of a container), or the memory that it may have",
            err=True,
        )
        return 1
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    main()
