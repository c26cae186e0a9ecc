"""``jdbcstore journal check|diagnose|repair|dump``: the tools for journals, whatever their format is.

What lies in the directory says which format it is; `KINDS` is the list. Each has the same four commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

import click

from jdbcstore.config.urls import is_journal_url
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.journal.amq.journal import file_number
from jdbcstore.store.journal.kahadb.directory_kind import refuse_a_mixture
from jdbcstore.store.journal.mkahadb.filters import TX_STORE, stores_of

__all__ = ["KINDS", "Kind", "journal", "kind_of"]


_KAHADB_FILE: Final = re.compile(r"db-\d+\.log")
_LEVELDB_FILE: Final = re.compile(r"[0-9a-fA-F]{16}\.(log|index)|(dirty|plist|temp)\.index")


class Kind(NamedTuple):
    """A format of journals."""

    name: str
    """As people call it."""
    is_it: Callable[[Collection[str], Path], bool]
    """Whether a directory with these names in it is one."""
    tools: str
    """Where the group of its commands is: module and name."""


def _is_amq(names: Collection[str], directory: Path) -> bool:
    is_journal = any(file_number(name) is not None for name in names)  # itself, or an archive
    return is_journal or "kr-store" in names or (directory / "journal" / "data-control").exists()


def _is_leveldb(names: Collection[str], directory: Path) -> bool:
    return "store-version.txt" in names or any(_LEVELDB_FILE.fullmatch(name) for name in names)


def _is_several(names: Collection[str], directory: Path) -> bool:
    if any(_KAHADB_FILE.fullmatch(name) for name in names):
        return False
    return TX_STORE in names or any("#" in path.name for path in stores_of(directory))


def _is_kahadb(names: Collection[str], directory: Path) -> bool:
    return True  # it says by itself what the directory is instead


#: In the order in which they are asked; the last one takes what is left.
KINDS: Final = (
    Kind("AMQ store", _is_amq, "jdbcstore.console.amq:amq"),
    Kind("LevelDB", _is_leveldb, "jdbcstore.console.leveldb:leveldb"),
    Kind("several KahaDB", _is_several, "jdbcstore.console.mkahadb:mkahadb"),
    Kind("KahaDB", _is_kahadb, "jdbcstore.console.kahadb:kahadb"),
)


def kind_of(directory: Path) -> Kind:
    """Which format a directory is in, by the names in it.

    Raises:
        ConfigurationError: it cannot be read, or there are files of two formats.
    """
    try:
        names = {path.name for path in directory.iterdir()}
    except OSError as error:
        raise ConfigurationError(f"cannot read {directory}: {error.strerror}") from error
    refuse_a_mixture(directory, names)
    return next(kind for kind in KINDS if kind.is_it(names, directory))


@click.group()
def journal() -> None:
    """Look at the directory of a broker that stores in journals: is it intact, why is it full, what is in it.

    KahaDB, mKahaDB, the AMQ store and LevelDB are told apart by what lies there. Nothing is changed, and all but
    'repair' work while a broker runs. The options are those of the format: 'jdbcstore journal check DIRECTORY --help'.
    """


def _forwarded(name: str, text: str) -> click.Command:
    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    usage = f"DIRECTORY{' NEW' if name == 'repair' else ''} [OPTIONS]"

    @click.command(name, help=text, context_settings=settings, options_metavar=usage, add_help_option=False)
    @click.pass_context
    def command(context: click.Context) -> object:
        places = [Path(one) for one in context.args if not one.startswith("-")]
        directory = next((one for one in places if one.is_dir()), places[0] if places else None)
        if directory is None:
            if context.args and {*context.args} <= {*context.help_option_names}:
                click.echo(context.get_help())
                return None
            raise click.UsageError("Missing argument 'DIRECTORY'.", context)
        if is_journal_url(str(directory)) and not directory.exists():
            alone = str(directory).partition(":")[2].partition("?")[0]
            raise ConfigurationError(
                f"{directory} is the URL of a store, and this takes its directory: jdbcstore journal {name} {alone}"
                f" (its options: jdbcstore journal {name} {alone} --help)"
            )
        module, _, group = kind_of(directory).tools.partition(":")
        tools: click.Group = getattr(import_module(module), group)
        return tools.commands[name].main(context.args, prog_name=f"jdbcstore journal {name}", standalone_mode=False)

    return command


for _name, _text in (
    ("check", "Is all of the store in DIRECTORY what it should be?"),
    ("diagnose", "What keeps the files of the store in DIRECTORY?"),
    ("repair", "Write what can be read of the store in DIRECTORY into a new one, the next argument."),
    ("dump", "Show the records of the journal in DIRECTORY."),
):
    journal.add_command(_forwarded(_name, _text))
