"""The keys of the OpenID Connect issuers whose tokens the broker accepts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final

from broker.access.discovery import IssuerAway, fetch_keys
from broker.core.access.issued_tokens import TokenOrigin, key_of, origin_of, verify_issued
from broker.core.errors import AuthenticationFailed

if TYPE_CHECKING:
    from broker.access_settings import AccessSettings
    from broker.core.access.principal import Principal
    from broker.core.access.tokens import TokenKey

__all__ = ["IssuerState", "Issuers"]

logger = logging.getLogger(__name__)

RETRY_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerState:
    """The state of one issuer."""

    issuer: str
    is_up: bool  # Whether the last attempt to read the keys succeeded
    keys_age_s: float | None  # None if the keys were never read


class Issuers:
    """The keys of all issuers."""

    def __init__(self, settings: AccessSettings, now_s: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._now_s = now_s
        self._issuers = {
            each: _Issuer(each, settings, now_s)
            for each in settings.openid_issuers
            if settings.takes_openid_tokens
        }
        self._refreshes: dict[str, asyncio.Future[None]] = {}

    def states(self) -> Iterator[IssuerState]:
        """Yield each issuer's state."""
        for each in self._issuers.values():
            yield each.state()

    def origin(self, token: str) -> TokenOrigin | None:
        """Return the issuer and the key id of a token, or None if the issuer is unknown."""
        origin = origin_of(token) if self._issuers else None
        return origin if origin is not None and origin.issuer in self._issuers else None

    def verify_now(self, token: str, origin: TokenOrigin, now_ms: int) -> Principal | None:
        """Return the client that a token names, or None if `verify` must read the issuer's keys first.

        Raises AuthenticationFailed if the token is invalid.
        """
        issuer = self._issuers[origin.issuer]
        key = issuer.key(origin)
        if key is None:
            if issuer.may_ask_for_key() or origin.issuer in self._refreshes:
                return None
            raise issuer.unknown_key()
        settings = self._settings
        return verify_issued(
            token,
            key,
            issuer=origin.issuer,
            audiences=settings.openid_audiences,
            role_claim=settings.openid_role_claim,
            leeway_s=settings.openid_leeway_s,
            now_ms=now_ms,
        )

    async def verify(self, token: str, origin: TokenOrigin, now_ms: int) -> Principal:
        """Read the issuer's keys, then return the client that a token names. Raises AuthenticationFailed."""
        await asyncio.shield(self._refresh(origin.issuer))
        return self._verified(token, origin, now_ms)

    def verify_blocking(self, token: str, origin: TokenOrigin, now_ms: int) -> Principal:
        """Return the client that a token names. May block to read keys. Raises AuthenticationFailed."""
        self._issuers[origin.issuer].refresh_for(origin)
        return self._verified(token, origin, now_ms)

    def turn(self) -> bool:
        """Begin to read keys where necessary. Return whether any keys have changed or expired."""
        for each in self._issuers.values():
            if each.is_due():
                self._refresh(each.url)
        changed = [each.take_change() for each in self._issuers.values()]
        return any(changed)

    def stop(self) -> None:
        """Stop waiting for issuers' answers."""
        for reading in self._refreshes.values():
            reading.cancel()

    def _verified(self, token: str, origin: TokenOrigin, now_ms: int) -> Principal:
        found = self.verify_now(token, origin, now_ms)
        if found is None:
            raise self._issuers[origin.issuer].unknown_key()
        return found

    def _refresh(self, url: str) -> asyncio.Future[None]:
        reading = self._refreshes.get(url)
        if reading is None:
            loop = asyncio.get_running_loop()
            reading = self._refreshes[url] = loop.create_future()
            # A daemon thread does not delay the exit of the process.
            Thread(target=self._read, args=(url, loop), name="issuer", daemon=True).start()
        return reading

    def _read(self, url: str, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self._issuers[url].refresh()
        finally:
            with contextlib.suppress(RuntimeError):  # The loop may be closed
                loop.call_soon_threadsafe(self._was_read, url)

    def _was_read(self, url: str) -> None:
        reading = self._refreshes.pop(url, None)
        if reading is not None and not reading.done():
            reading.set_result(None)


class _Issuer:
    """The keys of one issuer. The methods `refresh` and `refresh_for` block."""

    def __init__(self, url: str, settings: AccessSettings, now_s: Callable[[], float]) -> None:
        self.url = url
        self._settings = settings
        self._now_s = now_s
        self._keys: Mapping[str, TokenKey] = {}
        self._read_s: float | None = None  # When the keys were last read
        self._asked_s: float | None = None  # When the last attempt to read the keys began
        self._error = ""
        self._is_changed = False
        self._were_usable = False
        self._lock = Lock()

    def state(self) -> IssuerState:
        age_s = None if self._read_s is None else self._now_s() - self._read_s
        return IssuerState(
            issuer=self.url, is_up=not self._error and self._read_s is not None, keys_age_s=age_s
        )

    def key(self, origin: TokenOrigin) -> TokenKey | None:
        return key_of(origin, self._keys) if self._are_usable() else None

    def _are_usable(self) -> bool:
        return (
            self._read_s is not None and self._now_s() - self._read_s <= self._settings.openid_keys_expiry_s
        )

    def is_due(self) -> bool:
        age_s = None if self._read_s is None else self._now_s() - self._read_s
        is_old = age_s is None or age_s >= self._settings.openid_keys_refresh_s
        # Retry after a failure even if the keys are not old.
        return (is_old or bool(self._error)) and self._is_past(RETRY_S)

    def may_ask_for_key(self) -> bool:
        # Made-up key ids must not cause many requests to the issuer.
        known = self._read_s is not None and not self._error
        return self._is_past(self._settings.openid_unknown_key_refresh_s if known else RETRY_S)

    def _is_past(self, pause_s: float) -> bool:
        return self._asked_s is None or self._now_s() - self._asked_s >= pause_s

    def unknown_key(self) -> AuthenticationFailed:
        if self._error:
            return AuthenticationFailed(f"the keys of {self.url} cannot be read: try again later")
        return AuthenticationFailed(f"{self.url} does not publish the key that signed the token")

    def refresh(self) -> None:
        with self._lock:
            self._refresh()

    def refresh_for(self, origin: TokenOrigin) -> None:
        if self.key(origin) is not None and not self.is_due():
            return
        with self._lock:
            # Another thread may have read the keys while this thread waited for the lock.
            if self.is_due() or (self.key(origin) is None and self.may_ask_for_key()):
                self._refresh()

    def _refresh(self) -> None:
        self._asked_s = self._now_s()
        try:
            keys = fetch_keys(self.url, self._settings)
        except IssuerAway as error:
            if not self._error:
                logger.error(
                    "the keys of the issuer %s cannot be read: %s. Keys that were read before keep working until they"
                    " expire; the next attempt comes after %d seconds at the earliest",
                    self.url,
                    error,
                    RETRY_S,
                )
            self._error = str(error)
            return
        if self._error:
            logger.info("the keys of the issuer %s can be read again", self.url)
        self._error = ""
        if {name: each.key.thumbprint() for name, each in keys.items()} != {
            name: each.key.thumbprint() for name, each in self._keys.items()
        }:
            self._is_changed = self._read_s is not None
        self._keys, self._read_s = keys, self._now_s()

    def take_change(self) -> bool:
        """Return whether the keys have changed or expired since the last call."""
        are_usable = self._are_usable()
        is_changed = self._is_changed or (self._were_usable and not are_usable)
        self._is_changed, self._were_usable = False, are_usable
        return is_changed
