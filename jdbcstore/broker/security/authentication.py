"""Logins as the broker does them: never in the event loop, and nobody's wait for somebody else's guesses.

An attempt goes through four gates::

    remembered   the same login and passcode were right a moment ago: let in at once
    in turn      attempts of one address with one login come one after the other
    delayed      after failures it waits, see `jdbcstore.broker.security.slowness`
    a thread     hashing takes some 20 ms of a core; two threads do it, addresses take turns

So a thousand clients that reconnect cost a hash or so, and a flood of guesses from one address costs others at most
every second place in the line. What is remembered is a keyed digest of login and passcode, in memory, under a key that
no one else has; changes of the users make it forgotten.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from jdbcstore.broker.ready_threads import ReadyThreads
from jdbcstore.broker.security.login import Credentials, Grant, LoginStack
from jdbcstore.broker.security.slowness import Slowness
from jdbcstore.errors import LoginRefused

__all__ = ["Authentication", "Told"]

log = logging.getLogger(__name__)

_THREADS: Final = 2
_LOOK_S: Final = 1.0
#: Right logins that are remembered.
_REMEMBERED_MAX: Final = 10_000
_SHOWN_CHARS_MAX: Final = 100
#: Between two log lines about one address.
_TELL_S: Final = 1.0
_TOLD_ADDRESSES_MAX: Final = 1000

#: Called once in the event loop: what has become of a login.
Told = Callable[[Grant | LoginRefused], object]


class Authentication:
    """Lets clients in. All methods are called in the event loop.

    Args:
        stack: who decides.
        encrypted: who decides about clients that come by TLS, if it is somebody else.
        delay_max_s: the longest wait after failed attempts.
        remember_s: how long a right login is remembered, 0 for not at all.
    """

    def __init__(
        self,
        stack: LoginStack,
        *,
        encrypted: LoginStack | None = None,
        delay_max_s: float = 5.0,
        remember_s: float = 60.0,
    ) -> None:
        self._stack = stack
        self._encrypted = encrypted
        self._slowness = Slowness(delay_max_s)
        self._remember_s = remember_s
        self._remembered: OrderedDict[bytes, tuple[Grant, float]] = OrderedDict()
        self._key = secrets.token_bytes(32)
        self._turns: dict[tuple[str, str | None], _Turn] = {}
        #: By address: when something was logged last, and how much was not since.
        self._told: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._changes = 0
        #: Logins that were refused.
        self.refused = 0
        self._threads: ReadyThreads
        self._places: _Places
        self._loop: asyncio.AbstractEventLoop
        self._watch: asyncio.Task[None] | None = None
        self._logins: set[asyncio.Task[None]] = set()

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self, changed: Callable[[], object]) -> None:
        """Begin.

        Args:
            changed: called when the users have changed: grants may not hold any more, see `renew`.
        """
        self._loop = asyncio.get_running_loop()
        self._threads = ReadyThreads(_THREADS, "jdbcstore-login")
        self._places = _Places(_THREADS)
        self._watch = asyncio.create_task(self._look(changed))

    def stop(self) -> None:
        """Come to an end; nobody is told any more."""
        for task in (self._watch, *self._logins):
            if task is not None:
                task.cancel()
        if self._watch is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._watch = None

    async def _look(self, changed: Callable[[], object]) -> None:
        stacks = [stack for stack in (self._stack, self._encrypted) if stack is not None]
        while True:
            await asyncio.sleep(_LOOK_S)
            looks = [await self._loop.run_in_executor(self._threads, stack.look) for stack in stacks]
            if any(looks):
                self._changes += 1
                self._remembered.clear()
                changed()

    # -- logins --------------------------------------------------------------------------------------------------

    def login(self, credentials: Credentials, address: str, told: Told) -> asyncio.Task[None] | None:
        """Begin a login.

        Args:
            credentials: what the client shows.
            address: where it comes from, without port.
            told: called with the grant or the refusal, at once if that is known.

        Returns:
            What is to be cancelled when the client is gone; None if it was told at once.
        """
        digest = self._digest(credentials)
        grant = self._recall(digest)
        if grant is not None:
            told(grant)
            return None
        task = asyncio.ensure_future(self._examine(credentials, address, digest, told))
        self._logins.add(task)
        task.add_done_callback(self._logins.discard)
        return task

    def renew(self, grant: Grant, *, is_encrypted: bool) -> Grant | None:
        """A grant by what is known now; None if the client has to log in again."""
        return self._stack_for(is_encrypted).renew(grant)

    async def _examine(self, credentials: Credentials, address: str, digest: bytes, told: Told) -> None:
        login = credentials.login
        async with self._turn(address, login):
            grant = self._recall(digest)
            if grant is None:
                await asyncio.sleep(self._slowness.delay_s(address, login, self._loop.time()))
                try:
                    grant = await self._ask(credentials, address, digest)
                except LoginRefused as refusal:
                    self._refused(address, credentials, str(refusal))
                    told(LoginRefused(f"User name [{'null' if login is None else login}] or password is invalid."))
                    return
                self._slowness.succeeded(address, login)
        told(grant)

    async def _ask(self, credentials: Credentials, address: str, digest: bytes) -> Grant:
        stack, changes = self._stack_for(credentials.is_encrypted), self._changes
        async with self._places.place(address):
            grant = await self._loop.run_in_executor(self._threads, stack.login, credentials)
        if changes == self._changes:
            self._remember(digest, grant)
            return grant
        renewed = stack.renew(grant)  # the users have changed in between
        if renewed is None:
            raise LoginRefused("the user was changed in this moment")
        return renewed

    def _stack_for(self, is_encrypted: bool) -> LoginStack:
        return self._stack if self._encrypted is None or not is_encrypted else self._encrypted

    def _refused(self, address: str, credentials: Credentials, why: str) -> None:
        self.refused += 1
        now_s = self._loop.time()
        failures = self._slowness.failed(address, credentials.login, now_s)
        told_s, untold = self._told.pop(address, (-_TELL_S, 0))
        if now_s - told_s < _TELL_S:
            self._told[address] = told_s, untold + 1
            return
        self._told[address] = now_s, 0
        while len(self._told) > _TOLD_ADDRESSES_MAX:
            self._told.popitem(last=False)
        login = credentials.login if credentials.login is None else credentials.login[:_SHOWN_CHARS_MAX]
        more = f" untold_before={untold}" if untold else ""
        log.warning("login refused peer=%s login=%r reason=%r failures=%d%s", address, login, why, failures, more)

    @asynccontextmanager
    async def _turn(self, address: str, login: str | None) -> AsyncIterator[None]:
        """Attempts of one address with one login, one after the other."""
        key = (address, login)
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = _Turn()
        turn.users += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[key]

    # -- what was right a moment ago -------------------------------------------------------------------------------

    def _digest(self, credentials: Credentials) -> bytes:
        shown = (credentials.login, credentials.passcode, credentials.subject, credentials.is_encrypted)
        return hashlib.blake2b(repr(shown).encode("utf-8", "backslashreplace"), key=self._key, digest_size=32).digest()

    def _recall(self, digest: bytes) -> Grant | None:
        found = self._remembered.get(digest)
        if found is None or found[1] < self._loop.time():
            return None
        return found[0]

    def _remember(self, digest: bytes, grant: Grant) -> None:
        if self._remember_s > 0:
            self._remembered[digest] = grant, self._loop.time() + self._remember_s
            while len(self._remembered) > _REMEMBERED_MAX:
                self._remembered.popitem(last=False)


class _Turn:
    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class _Places:
    """A number of places; when all are taken, addresses take turns."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def place(self, address: str) -> AsyncIterator[None]:
        """Have a place for the duration of the block."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(address)
        try:
            yield
        finally:
            self._next()

    async def _wait(self, address: str) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, deque()).append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._next()  # it had the place already
            raise

    def _next(self) -> None:
        while self._waiting:
            address, line = self._waiting.popitem(last=False)
            future = line.popleft()
            if line:
                self._waiting[address] = line  # behind the others
            if not future.done():
                future.set_result(None)
                return
        self._free += 1
