"""The keys that verify tokens, from settings and files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.access.watched_file import WatchedFile
from broker.core.access.tokens import TokenKey, TokenKeyInvalid, asymmetric_key, secret_key
from broker.environment import SettingInvalid

if TYPE_CHECKING:
    from broker.access_settings import AccessSettings

__all__ = ["TokenKeys"]

_Read = Callable[[bytes], TokenKey]


class TokenKeys:
    """All token keys in the settings."""

    def __init__(self, settings: AccessSettings) -> None:
        """Read every key. Raises SettingInvalid if a key cannot be used."""
        self._fixed = (
            *(_fixed("VELA_TOKEN_SECRET_KEY", each, secret_key) for each in settings.token_secret_key),
            *(_fixed("VELA_TOKEN_PUBLIC_KEY", each, asymmetric_key) for each in settings.token_public_key),
        )
        self._files = (
            *(
                WatchedFile("VELA_TOKEN_SECRET_KEY_FILE", each, secret_key)
                for each in settings.token_secret_key_file
            ),
            *(
                WatchedFile("VELA_TOKEN_PUBLIC_KEY_FILE", each, asymmetric_key)
                for each in settings.token_public_key_file
            ),
        )

    def current(self) -> tuple[TokenKey, ...]:
        """Return the keys as they were last read."""
        return (*self._fixed, *(each.value for each in self._files))

    def first_secret(self) -> TokenKey | None:
        """Return the first secret key, or None."""
        return next((each for each in self.current() if each.is_secret), None)

    def refresh(self) -> bool:
        """Read the files that have changed. Return whether any new content is in use.

        While a file is missing or unusable, its old key stays in use.
        """
        refreshed = [each.refresh() for each in self._files]
        return any(refreshed)


def _fixed(variable: str, text: str, read: _Read) -> TokenKey:
    try:
        return read(text.encode())
    except TokenKeyInvalid as error:
        raise SettingInvalid(f"{variable} cannot be used: {error}") from None
