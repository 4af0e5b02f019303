"""Limits on a client's requests, messages and bytes per second."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.errors import TooManyRequests
from broker.core.limits.rate_limit import TokenBuckets

if TYPE_CHECKING:
    from broker.door_settings import DoorSettings

__all__ = ["ClientRates", "TooManyRequests"]

_MOST_WAIT_MS: Final = 1000


class _By(IntEnum):
    CONNECTION = 0
    ADDRESS = 1
    ROLE = 2


class _Limit(NamedTuple):
    setting: str
    unit: str
    by: _By
    buckets: TokenBuckets


class ClientRates:
    """Counts HTTP requests, WebSocket messages and WebSocket bytes. A limit of 0 means no limit."""

    def __init__(
        self,
        settings: DoorSettings,
        reached: Callable[[str, str, str], None],
        now_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        """When a client reaches a limit, `reached` is called with the setting, the consequence and the client."""
        self._reached = reached
        self._now_ms = now_ms
        asked = "VELA_HTTP_REQUEST_RATE", "HTTP requests"
        self._requests = _limits(*asked, settings.http_request_rate, settings.http_request_rate_per_address)
        self._role_requests = _limits(*asked, 0, 0, settings.http_request_rate_per_role)
        self._messages = _limits(
            "VELA_WEBSOCKET_MESSAGE_RATE",
            "messages",
            settings.websocket_message_rate,
            settings.websocket_message_rate_per_address,
            settings.websocket_message_rate_per_role,
        )
        self._bytes = _limits(
            "VELA_WEBSOCKET_BYTE_RATE",
            "bytes",
            settings.websocket_byte_rate,
            settings.websocket_byte_rate_per_address,
            settings.websocket_byte_rate_per_role,
        )
        self.limits_sockets = bool(self._messages or self._bytes)  # If False, `wait_s` always returns 0

    def check_request(self, peer: str) -> None:
        """Count an HTTP request from this address and port. Raises TooManyRequests above a limit."""
        self._check(self._requests, _keys(peer, ""), peer)

    def check_role(self, role: str) -> None:
        """Count an HTTP request or WebSocket handshake of this role. Raises TooManyRequests above the limit."""
        if role:
            self._check(self._role_requests, ("", "", role), f"role {role}")

    def wait_s(self, peer: str, role: str, *, messages: int, size_bytes: int) -> float:
        """Count a WebSocket's messages and bytes. Return how many seconds the caller must wait, at most 1.

        After each wait, call this method again with 0 messages and 0 bytes, until the result is 0.
        """
        keys = _keys(peer, role)
        longest_ms = 0
        for limits, units in ((self._messages, messages), (self._bytes, size_bytes)):
            for limit in limits:
                if not keys[limit.by]:
                    continue
                now_ms = self._now_ms()
                bucket = limit.buckets.of(keys[limit.by], now_ms)
                bucket.take(units, now_ms)
                wait_ms = bucket.wait_ms(now_ms)
                if wait_ms and units:
                    self._reached(limit.setting, f"it sends more than {_rate(limit)}: reading it later", peer)
                longest_ms = max(longest_ms, wait_ms)
        return min(longest_ms, _MOST_WAIT_MS) / 1000

    def _check(self, limits: Sequence[_Limit], keys: Sequence[str], client: str) -> None:
        now_ms = self._now_ms() if limits else 0
        for limit in limits:
            bucket = limit.buckets.of(keys[limit.by], now_ms)
            if bucket.available(now_ms) < 1:
                self._reached(limit.setting, f"refused, because it sends more than {_rate(limit)}", client)
                raise TooManyRequests(
                    f"more than {_rate(limit)}, the most that {limit.setting} allows: ask less often"
                )
            bucket.take(1, now_ms)


def _limits(setting: str, unit: str, own: int, per_address: int, per_role: int = 0) -> Sequence[_Limit]:
    found = (
        (setting, _By.CONNECTION, own),
        (f"{setting}_PER_ADDRESS", _By.ADDRESS, per_address),
        (f"{setting}_PER_ROLE", _By.ROLE, per_role),
    )
    return tuple(_Limit(name, unit, by, TokenBuckets(rate)) for name, by, rate in found if rate)


def _keys(peer: str, role: str) -> tuple[str, str, str]:
    return peer, peer.rpartition(":")[0], role


def _rate(limit: _Limit) -> str:
    return f"{limit.buckets.rate} {limit.unit} a second"
