"""Warnings about options that cannot do what they promise, and about a consumer that keeps too many messages."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol

from vela.core.consuming.prefetch import LOOK_MS, Prefetch
from vela.options import ConsumerType

if TYPE_CHECKING:
    from vela.aio.consumers.options import ConsumerOptions
    from vela.aio.timers import Timer, Timers

__all__ = ["PrefetchWatch", "option_warnings"]

logger = logging.getLogger(__name__)

_COUNTED: Final = (ConsumerType.Shared, ConsumerType.KeyShared)


def option_warnings(options: ConsumerOptions) -> Iterator[str]:
    """Yield a warning for each option that cannot do what it promises."""
    kind = options.consumer_type
    if options.dead_letter_policy is not None and not options.retry_enable and kind not in _COUNTED:
        yield (
            f"dead_letter_policy has no effect on {kind.name}, where redeliveries are not counted:"
            " use Shared or KeyShared"
        )
    if options.retry_enable and not options.unacked_messages_timeout_ms:
        yield (
            "retry_enable without unacked_messages_timeout_ms: a message that you neither acknowledge nor reconsume nor"
            " negatively acknowledge is delivered again only after this consumer closes or reconnects"
        )
    if options.retry_enable and kind not in _COUNTED:
        yield (
            f"retry_enable on {kind.name}: retry letters are not delayed there, and redeliveries are not counted:"
            " use Shared or KeyShared"
        )
    if options.retry_on_ack_timeout and not (options.retry_enable and options.unacked_messages_timeout_ms):
        yield "retry_on_ack_timeout has no effect without retry_enable and unacked_messages_timeout_ms"


class Watched(Protocol):
    """The part of a consumer that the watch needs."""

    def topic(self) -> str:
        """Return the topic's name."""

    def subscription_name(self) -> str:
        """Return the subscription's name."""

    def queued_and_taken(self) -> tuple[int, int]:
        """Return how many messages wait for the application, and how many it has taken in all."""


class PrefetchWatch:
    """Warns once if a Shared consumer needs more than a minute for the messages in its queue."""

    def __init__(self, consumer: Watched, timers: Timers) -> None:
        self._consumer = consumer
        self._timers = timers
        self._prefetch = Prefetch()
        self._timer: Timer | None = timers.call_later(LOOK_MS, self._look)

    def _look(self) -> None:
        queued, taken = self._consumer.queued_and_taken()
        if not self._prefetch.hoards(queued=queued, taken=taken):
            self._timer = self._timers.call_later(LOOK_MS, self._look)
            return
        self._timer = None
        logger.warning(
            "%s, subscription %s: this consumer needs more than a minute for the %d messages in its queue, and other"
            " consumers cannot get them. If there are other consumers, give this one a smaller receiver_queue_size"
            " (0: no message waits)",
            self._consumer.topic(),
            self._consumer.subscription_name(),
            queued,
        )

    def close(self) -> None:
        """Stop watching. Safe to repeat."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
