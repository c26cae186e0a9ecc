"""A configuration, from a file of whichever kind and from the environment."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from jdbcstore.config.configuration import Configuration, read_configuration
from jdbcstore.config.environment import option_variables, with_environment
from jdbcstore.config.urls import shown_url
from jdbcstore.errors import ConfigurationError

__all__ = ["Loaded", "Origin", "load_configuration"]

#: How an XML file may begin: a byte order mark of UTF-8 or UTF-16, blanks, and the first tag.
_MARKS: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
#: Options that are not for everybody's eyes.
_SECRETS: Final = ("key_password", "ca_password")


@dataclass(frozen=True, slots=True)
class Origin:
    """Who gave an option its value.

    Args:
        option: with its table, ``broker.bind``.
        value: for people, without passwords.
        said_by: a line and an attribute of ``activemq.xml``, a file, or an environment variable.
    """

    option: str
    value: str
    said_by: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a broker would run with.

    Args:
        configuration: everything; of no meaning when there are errors.
        origins: every option that somebody gave a value.
        warnings: what is not as the file says.
        errors: what keeps the broker from starting.
    """

    configuration: Configuration
    origins: tuple[Origin, ...] = ()
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    def checked(self) -> Configuration:
        """The configuration.

        Raises:
            ConfigurationError: there are errors; the text has them all, each in a line.
        """
        if self.errors:
            raise ConfigurationError("\n".join(self.errors))
        return self.configuration


def load_configuration(path: Path | None, environment: Mapping[str, str], overridden: Set[str] = frozenset()) -> Loaded:
    """Read a configuration file, TOML or ``activemq.xml``, and what environment variables say besides.

    Args:
        path: of the file, None for none. What is in it decides, not its name.
        environment: the variables of the process.
        overridden: options that somebody gives who goes before file and environment, such as ``broker.bind``.

    Raises:
        ConfigurationError: a file cannot be read, a TOML file or a variable is wrong.
    """
    variables = option_variables()
    overridden = overridden | {variables[name][0] for name in environment if name in variables}
    loaded = Loaded(Configuration()) if path is None else _file(path, environment, overridden)
    configuration, used, warnings = with_environment(loaded.configuration, environment)
    values = _values(configuration) if used else {}
    origins = [origin for origin in loaded.origins if origin.option not in used]
    origins += [Origin(option, values[option], variable) for option, variable in used.items()]
    return Loaded(configuration, tuple(origins), (*loaded.warnings, *warnings), loaded.errors)


def _file(path: Path, environment: Mapping[str, str], overridden: Set[str]) -> Loaded:
    try:
        with path.open("rb") as file:
            is_xml = _is_xml(file.read(1024))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error
    if is_xml:
        return _activemq_xml(path, environment, overridden)
    configuration = read_configuration(path)
    defaults = _values(Configuration())
    given = {option: value for option, value in _values(configuration).items() if value != defaults.get(option)}
    origins = tuple(Origin(option, value, path.name) for option, value in given.items())
    return Loaded(configuration, origins, configuration.notes)


def _activemq_xml(path: Path, environment: Mapping[str, str], overridden: Set[str]) -> Loaded:
    from jdbcstore.config.activemq_xml.reader import read_activemq_xml  # other brokers start without it

    read = read_activemq_xml(path, environment, overridden)
    findings = read.findings
    return Loaded(
        read.configuration,
        tuple(Origin(used.option, used.value, f"{used.place} {used.source}") for used in findings.used),
        tuple(map(str, findings.warnings)),
        tuple(map(str, findings.errors)),
    )


def _is_xml(beginning: bytes) -> bool:
    for mark in _MARKS:
        if beginning.startswith(mark):
            beginning = beginning.removeprefix(mark).replace(b"\0", b"")
    return beginning.lstrip().startswith(b"<")


def _values(configuration: Configuration) -> dict[str, str]:
    """Every option with its table, and its value for people."""
    values = {"store.url": shown_url(configuration.url)}
    if configuration.authorization is not None:
        values["authorization"] = f"{len(configuration.authorization.entries)} entries"
    virtual = configuration.virtual_destinations
    for one in virtual.virtual_topics:
        values[f'virtual_topics."{one.name.physical_name}"'] = str(one.queues)
    for composite in virtual.composites:
        values[f'composites."{composite.name}"'] = ", ".join(str(to.destination) for to in composite.forward_to)
    if virtual.mirrored_queue is not None:
        values["mirrored_queue"] = f"topics {virtual.mirrored_queue.prefix}*{virtual.mirrored_queue.postfix}"
    tables = {
        "broker": asdict(configuration.broker),
        "store": asdict(configuration.store),
        "store.lock": asdict(configuration.store.lock),
        "kahadb": asdict(configuration.kahadb),
        "tls": asdict(configuration.tls),
        "log": asdict(configuration.log),
    }
    for table, options in tables.items():
        for name, value in options.items():
            if name in ("users", "groups"):
                value = None if value is None else ", ".join(value)
            if name in _SECRETS and value:
                value = "***"
            if name != "lock":
                values[f"{table}.{name}"] = str(value).lower() if isinstance(value, bool) else str(value)
    return values
