"""Read `htpasswd` files with bcrypt or apr1 hashes, and check passwords.

Call `fits` in a thread, because a bcrypt hash of cost 10 takes 50 ms.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["PasswordFileInvalid", "StoredPassword", "fits", "read_passwords"]

MAX_BCRYPT_COST: Final = 14  # At this cost, one check takes about a second
MAX_PASSWORD_BYTES: Final = 1024  # apr1 hashes the whole password 1,000 times
MAX_BCRYPT_BYTES: Final = 72
# The salt must end with `.`, `O`, `e` or `u`. Otherwise bcrypt raises ValueError.
_BCRYPT: Final = re.compile(r"\$2[aby]\$([0-9]{2})\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}")
# The salt is ASCII because compare_digest accepts only ASCII strings.
_APR1: Final = re.compile(r"\$apr1\$[!-#%-9;-~]{1,8}\$[./A-Za-z0-9]{22}")
_APR1_ROUNDS: Final = 1000
_ALPHABET: Final = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_GROUPS: Final = (
    (0, 6, 12),
    (1, 7, 13),
    (2, 8, 14),
    (3, 9, 15),
    (4, 10, 5),
)


class PasswordFileInvalid(ValueError):
    """The text is not a valid password file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPassword:
    """The stored password of one user."""

    hash: str
    id: str  # Digest of the user's line in the password file


def read_passwords(text: str) -> Mapping[str, StoredPassword]:
    """Return the stored passwords in a password file, keyed by user name.

    Raises PasswordFileInvalid if a line is not valid, or if the file has no users.
    """
    users: dict[str, StoredPassword] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, colon, stored = line.strip().partition(":")
        if not (user and colon):
            raise PasswordFileInvalid(f"line {number} is not user:hash, as `htpasswd -B` writes it")
        if user in users:
            raise PasswordFileInvalid(f"line {number} names {user!r}, as an earlier line does: remove one")
        bcrypted = _BCRYPT.fullmatch(stored)
        if bcrypted is None and not _APR1.fullmatch(stored):
            raise PasswordFileInvalid(
                f"line {number}: the hash of {user!r} is neither bcrypt nor apr1: make it with `htpasswd -B`"
            )
        if bcrypted is not None and not 4 <= int(bcrypted[1]) <= MAX_BCRYPT_COST:
            raise PasswordFileInvalid(
                f"line {number}: the hash of {user!r} has the cost {int(bcrypted[1])}; it takes 4 to {MAX_BCRYPT_COST}"
            )
        users[user] = StoredPassword(hash=stored, id=hashlib.sha256(line.encode()).hexdigest())
    if not users:
        raise PasswordFileInvalid("it has no users: add one with `htpasswd -B`")
    return users


def fits(password: bytes, stored: StoredPassword) -> bool:
    """Return whether the password matches the stored hash."""
    if stored.hash.startswith("$apr1$"):
        return len(password) <= MAX_PASSWORD_BYTES and hmac.compare_digest(
            _apr1(password, stored.hash), stored.hash
        )
    import bcrypt

    if len(password) > MAX_BCRYPT_BYTES or b"\0" in password:
        return False
    return bcrypt.checkpw(password, stored.hash.encode())


def _apr1(password: bytes, stored: str) -> str:
    salt = stored.split("$")[2].encode()
    alternate = hashlib.md5(password + salt + password, usedforsecurity=False).digest()
    mixed = password + b"$apr1$" + salt
    mixed += (alternate * (len(password) // 16 + 1))[: len(password)]
    length = len(password)
    while length:
        mixed += b"\0" if length & 1 else password[:1]
        length >>= 1
    digest = hashlib.md5(mixed, usedforsecurity=False).digest()
    for turn in range(_APR1_ROUNDS):
        parts = password if turn & 1 else digest
        parts += salt if turn % 3 else b""
        parts += password if turn % 7 else b""
        parts += digest if turn & 1 else password
        digest = hashlib.md5(parts, usedforsecurity=False).digest()
    encoded = [_base64(digest[a] << 16 | digest[b] << 8 | digest[c], 4) for a, b, c in _GROUPS]
    return f"$apr1${salt.decode()}${''.join(encoded)}{_base64(digest[11], 2)}"


def _base64(number: int, characters: int) -> str:
    return "".join(_ALPHABET[number >> 6 * at & 63] for at in range(characters))
