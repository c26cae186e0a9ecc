"""Users of brokers under load: each client is one, with the rights that it needs and no others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from jdbcstore.broker.security.passcodes import hash_passcode

__all__ = ["Users"]

_CONFIGURATION = """
[broker]
users_file = "{users}"
groups_file = "{groups}"

[authorization."queue://CHAOS.>"]
read = "readers"
write = "writers"
admin = "readers, writers"
"""


@dataclass(frozen=True)
class Users:
    """Users of brokers.

    Args:
        writers, readers: names of clients.
    """

    writers: Iterable[str]
    readers: Iterable[str]

    def write(self, folder: Path) -> Path:
        """Write the files of users and the configuration; the path of the latter."""
        users, groups, configuration = (
            folder / name for name in ("users.properties", "groups.properties", "chaos.toml")
        )
        names = [*self.writers, *self.readers]
        users.write_text("".join(f"{name}={hash_passcode(self._passcode(name))}\n" for name in names))
        groups.write_text(f"writers={','.join(self.writers)}\nreaders={','.join(self.readers)}\n")
        users.chmod(0o600)
        configuration.write_text(_CONFIGURATION.format(users=users, groups=groups))
        return configuration

    def headers(self, name: str) -> dict[str, str]:
        """What a client shows."""
        return {"login": name, "passcode": self._passcode(name)}

    @staticmethod
    def _passcode(name: str) -> str:
        return f"secret of {name}"
