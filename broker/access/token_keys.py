"""The keys of tokens, from settings and files. A changed file takes effect without a restart."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from broker.core.access.tokens import TokenKey, TokenKeyInvalid, asymmetric_key, secret_key
from broker.environment import SettingInvalid

if TYPE_CHECKING:
    from broker.access_settings import AccessSettings

__all__ = ["TokenKeys"]

logger = logging.getLogger(__name__)

_Stamp = tuple[int, int, int]  # of a file: inode, size in bytes, time of the last change in nanoseconds
_Read = Callable[[bytes], TokenKey]


class TokenKeys:
    """All keys that may have signed a token."""

    def __init__(self, settings: AccessSettings) -> None:
        """Read every key. Raises SettingInvalid, which names the variable of a key that cannot be used."""
        self._fixed = (
            *(_fixed("VELA_TOKEN_SECRET_KEY", each, secret_key) for each in settings.token_secret_key),
            *(_fixed("VELA_TOKEN_PUBLIC_KEY", each, asymmetric_key) for each in settings.token_public_key),
        )
        self._files = (
            *(
                _KeyFile("VELA_TOKEN_SECRET_KEY_FILE", each, secret_key)
                for each in settings.token_secret_key_file
            ),
            *(
                _KeyFile("VELA_TOKEN_PUBLIC_KEY_FILE", each, asymmetric_key)
                for each in settings.token_public_key_file
            ),
        )

    def current(self) -> tuple[TokenKey, ...]:
        """Return the keys, as `refresh` last read them."""
        return (*self._fixed, *(each.key for each in self._files))

    def refresh(self) -> bool:
        """Read the files that have changed, and return whether a key is new.

        A file that cannot be used now keeps its old key, which is logged once for each change.
        """
        refreshed = [each.refresh() for each in self._files]
        return any(refreshed)


class _KeyFile:
    """One file with one key."""

    def __init__(self, variable: str, path: Path, read: _Read) -> None:
        self._variable = variable
        self._path = path
        self._read = read
        try:
            self._stamp = _stamp(path)
            self.key = read(path.read_bytes())
        except OSError as error:
            raise SettingInvalid(f"{variable}: {path} cannot be read ({error.strerror})") from None
        except TokenKeyInvalid as error:
            raise SettingInvalid(f"{variable}: {path} has no key: {error}") from None

    def refresh(self) -> bool:
        stamp = _stamp_or_none(self._path)
        if stamp is None or stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self.key = self._read(self._path.read_bytes())
        except (OSError, TokenKeyInvalid) as error:
            logger.error("%s has changed and cannot be used, so its old key stays: %s", self._path, error)
            return False
        logger.info("%s has changed: its new key is in use", self._path)
        return True


def _fixed(variable: str, text: str, read: _Read) -> TokenKey:
    try:
        return read(text.encode())
    except TokenKeyInvalid as error:
        raise SettingInvalid(f"{variable} cannot be used: {error}") from None


def _stamp(path: Path) -> _Stamp:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _stamp_or_none(path: Path) -> _Stamp | None:
    try:
        return _stamp(path)
    except OSError:  # in the middle of a rotation
        return None
