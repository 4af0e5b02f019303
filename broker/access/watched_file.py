"""A watched file with keys or passwords."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from broker.environment import SettingInvalid

__all__ = ["WatchedFile"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

_Stamp = tuple[int, int, int]  # Inode, size in bytes, ctime in ns


class WatchedFile(Generic[T]):
    """A file whose last usable content is `value`."""

    def __init__(self, variable: str, path: Path, read: Callable[[bytes], T]) -> None:
        """Read the file. The function `read` must raise ValueError for unusable content.

        Raises SettingInvalid if the file cannot be read or used.
        """
        self._path = path
        self._read = read
        try:
            self._stamp: _Stamp | None = _stamp(path)
            self.value = read(path.read_bytes())
        except OSError as error:
            raise SettingInvalid(f"{variable}: {path} cannot be read ({error.strerror})") from None
        except ValueError as error:
            raise SettingInvalid(f"{variable}: {path} cannot be used: {error}") from None

    def refresh(self) -> bool:
        """Read the file if it has changed. Return True if `value` has been replaced.

        While the file is missing or unusable, the old value stays in use.
        """
        try:
            stamp = _stamp(self._path)
        except OSError as error:
            if self._stamp is not None:
                logger.error(
                    "%s is gone, so what it contained stays in use until the broker stops; put it back (%s)",
                    self._path,
                    error.strerror,
                )
                self._stamp = None
            return False
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self.value = self._read(self._path.read_bytes())
        except (OSError, ValueError) as error:
            logger.error(
                "%s has changed and cannot be used, so what it contained stays in use: %s", self._path, error
            )
            return False
        logger.info("%s has changed: what it contains is in use", self._path)
        return True


def _stamp(path: Path) -> _Stamp:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_ctime_ns
