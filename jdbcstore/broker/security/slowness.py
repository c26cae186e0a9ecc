"""How long the next attempt to log in has to wait after failed ones.

Failures are counted three times: for an address with a login, for an address, for a login. The first count slows down
most: who guesses one user's passcode waits, soon, the longest delay before each attempt. The others begin to count
later and delay less, since many clients can share an address and nobody is to keep a user out by guessing his passcode
from elsewhere. Failures are forgotten after five minutes without another. Memory is bounded: of more than ten thousand
counts the oldest is forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

__all__ = ["Slowness"]

_COUNTS_MAX: Final = 10_000
_FORGET_S: Final = 300.0
_FIRST_DELAY_S: Final = 0.1
#: Failures of an address, or of a login, that delay nobody.
_FREE_FAILURES: Final = 20
#: How much less they delay.
_MILDER: Final = 5
_LOGIN_CHARS_MAX: Final = 100

_Key = tuple[str, str]


@dataclass(slots=True)
class _Count:
    failures: int
    last_s: float


@dataclass(slots=True)
class Slowness:
    """Counts failures. Time is an argument, in seconds of any clock that never goes back.

    Args:
        delay_max_s: the longest delay.
    """

    delay_max_s: float
    _counts: OrderedDict[_Key, _Count] = field(default_factory=OrderedDict, init=False)

    def delay_s(self, address: str, login: str | None, now_s: float) -> float:
        """How long an attempt has to wait."""
        both, one, other = self._keys(address, login)
        own = _delay_s(self._failures(both, now_s), self.delay_max_s)
        shared = max(self._failures(one, now_s), self._failures(other, now_s)) - _FREE_FAILURES
        return max(own, _delay_s(shared, self.delay_max_s / _MILDER))

    def failed(self, address: str, login: str | None, now_s: float) -> int:
        """An attempt has failed. Returns how many of this address with this login have."""
        for key in reversed(keys := self._keys(address, login)):
            count = _Count(self._failures(key, now_s) + 1, now_s)
            self._counts[key] = count
            self._counts.move_to_end(key)
        while len(self._counts) > _COUNTS_MAX:
            self._counts.popitem(last=False)
        return self._counts[keys[0]].failures

    def succeeded(self, address: str, login: str | None) -> None:
        """An attempt has succeeded: this address may use this login without delay."""
        self._counts.pop(self._keys(address, login)[0], None)

    def _failures(self, key: _Key, now_s: float) -> int:
        count = self._counts.get(key)
        return 0 if count is None or now_s - count.last_s > _FORGET_S else count.failures

    @staticmethod
    def _keys(address: str, login: str | None) -> tuple[_Key, _Key, _Key]:
        name = "\0" if login is None else login[:_LOGIN_CHARS_MAX]  # no client can send that one
        return (address, name), (address, ""), ("", name)


def _delay_s(failures: int, most_s: float) -> float:
    return 0.0 if failures <= 0 else min(_FIRST_DELAY_S * 2.0 ** min(failures - 1, 30), most_s)
