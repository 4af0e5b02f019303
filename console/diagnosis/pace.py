"""Find the consumers of a subscription that are idle or get no messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

__all__ = ["SHARED", "WINDOW_S", "Connected", "are_known", "idle_among", "starved_among"]

WINDOW_S: Final = 20.0  # A consumer is judged only when it has been connected for at least this long
SHARED: Final = ("Shared", "Key_Shared")


class Connected(Protocol):
    """The consumer fields that this module reads."""

    @property
    def connected_ms(self) -> int: ...
    @property
    def permits(self) -> int: ...
    @property
    def unacked_messages(self) -> int: ...
    @property
    def last_flow_ms(self) -> int: ...
    @property
    def last_delivery_ms(self) -> int: ...
    @property
    def last_ack_ms(self) -> int: ...


C = TypeVar("C", bound=Connected)


def idle_among(consumers: Sequence[C], type_: str, now_ms: int) -> list[C]:
    """Return the consumers that take no messages out of their full queues while others work.

    If all consumers look idle, the list is empty, because they may simply be slow.
    For types other than Shared and Key_Shared, the list is empty.
    """
    idle = [each for each in consumers if each.permits <= 0 and _silent_s(each, now_ms) >= WINDOW_S]
    return [] if len(idle) == len(consumers) or type_ not in SHARED else idle


def starved_among(consumers: Sequence[C], type_: str, now_ms: int) -> list[C]:
    """Return the consumers that ask for messages and get none.

    For types other than Shared and Key_Shared, the list is empty.
    """
    if type_ not in SHARED:
        return []
    return [
        each
        for each in consumers
        if each.permits > 0 and each.unacked_messages <= 0 and _silent_s(each, now_ms) >= WINDOW_S
    ]


def are_known(consumers: Sequence[Connected], now_ms: int) -> bool:
    """Return whether every consumer has been connected long enough to be judged."""
    return all(now_ms - each.connected_ms >= WINDOW_S * 1000 for each in consumers)


def _silent_s(consumer: Connected, now_ms: int) -> float:
    signs = (consumer.connected_ms, consumer.last_flow_ms, consumer.last_delivery_ms, consumer.last_ack_ms)
    return max(0, now_ms - max(signs)) / 1000
