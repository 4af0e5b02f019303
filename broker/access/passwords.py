"""Check passwords in a thread, because each check is slow by design."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Final

from broker.access.watched_file import WatchedFile
from broker.core.access.passwords import StoredPassword, fits, read_passwords
from broker.core.access.principal import Principal
from broker.core.errors import AuthenticationFailed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["BASIC_METHOD", "Passwords"]

BASIC_METHOD: Final = "basic"
# With bcrypt at cost 10, this many checks take about 3 s.
MAX_WAITING: Final = 64
MAX_WAITING_OF_HOST: Final = 16  # One attacker must not fill the queue
REMEMBERED: Final = 1024  # Number of wrong passwords to remember


class Passwords:
    """The users in a password file. Call the methods from one event loop only."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises SettingInvalid if the file cannot be used."""
        self._file = WatchedFile("VELA_BASIC_FILE", path, _read)
        self._ids = self._current_ids()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="passwords")
        self._key = secrets.token_bytes(32)
        self._known: dict[bytes, Principal] = {}
        self._wrong: set[bytes] = set()
        self._checks: dict[bytes, asyncio.Future[bool]] = {}
        self._hosts: Counter[str] = Counter()

    def refresh(self) -> bool:
        """Read the file if it has changed. Return whether its new content is in use."""
        if not self._file.refresh():
            return False
        self._known.clear()
        self._wrong.clear()
        self._ids = self._current_ids()
        return True

    def stop(self) -> None:
        """Cancel the checks that have not begun."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def is_current(self, password_id: str) -> bool:
        """Return whether the file still contains the password."""
        return password_id in self._ids

    def _current_ids(self) -> frozenset[str]:
        return frozenset(each.id for each in self._file.value.values())

    def known(self, data: bytes) -> Principal | None:
        """Return the client with the credentials user:password, or None if the caller must await `check`.

        Raises AuthenticationFailed if the credentials are known to be wrong.
        """
        digest = self._digest(data)
        if digest in self._wrong:
            raise _wrong()
        return self._known.get(digest)

    async def check(self, data: bytes, host: str) -> Principal:
        """Return the client with the credentials user:password.

        Raises AuthenticationFailed if the credentials are wrong or cannot be checked now.
        """
        digest = self._digest(data)
        check = self._checks.get(digest)
        if check is None:
            check = self._begin(digest, data, host)
        await asyncio.shield(check)
        found = self._known.get(digest)
        if found is None:
            raise _wrong()
        return found

    def _begin(self, digest: bytes, data: bytes, host: str) -> asyncio.Future[bool]:
        if len(self._checks) >= MAX_WAITING or self._hosts[host] >= MAX_WAITING_OF_HOST:
            raise AuthenticationFailed("too many passwords are being checked: try again in a few seconds")
        name, _, password = data.partition(b":")
        users = self._file.value
        user = name.decode("utf-8", "replace")
        stored = users.get(user)
        compared = stored or self._compared_to(name, users)
        check = asyncio.get_running_loop().run_in_executor(self._thread, fits, password, compared)
        self._checks[digest] = check
        self._hosts[host] += 1

        def done(check: asyncio.Future[bool]) -> None:
            del self._checks[digest]
            self._hosts[host] -= 1
            if not self._hosts[host]:
                del self._hosts[host]
            if check.cancelled() or check.exception() is not None or users is not self._file.value:
                return  # The result is missing or outdated
            if stored is not None and check.result():
                self._known[digest] = _principal(user, stored)
                return
            if len(self._wrong) >= REMEMBERED:
                self._wrong.clear()
            self._wrong.add(digest)

        check.add_done_callback(done)
        return check

    def _compared_to(self, unknown: bytes, users: Mapping[str, StoredPassword]) -> StoredPassword:
        """Return a hash for an unknown user, so that the answer takes as long as for a known user.

        A name always gets the same hash. Otherwise the answer times would vary and show that the user is unknown.
        """
        number = int.from_bytes(self._digest(unknown)) % len(users)
        return next(islice(users.values(), number, None))

    def _digest(self, data: bytes) -> bytes:
        return hashlib.blake2b(data, key=self._key, digest_size=16).digest()


def _read(content: bytes) -> Mapping[str, StoredPassword]:
    return read_passwords(content.decode("utf-8"))


def _principal(user: str, stored: StoredPassword) -> Principal:
    return Principal(role=user, method=BASIC_METHOD, expires_ms=None, token_id=None, password_id=stored.id)


def _wrong() -> AuthenticationFailed:
    return AuthenticationFailed("the user or the password is wrong")
