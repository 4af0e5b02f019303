"""Warnings about consumer options that do not do what their names suggest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.doors.websocket.json.options import SubscriptionType

if TYPE_CHECKING:
    from broker.doors.websocket.json.options import ConsumerOptions

__all__ = ["option_warnings"]


def option_warnings(options: ConsumerOptions) -> Iterator[str]:
    """Yield each warning as one line of ASCII text."""
    single_active = options.subscription_type in (SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER)
    if options.dead_letter is not None and options.retry is None and single_active:
        yield (
            f"maxRedeliverCount has no effect on {options.subscription_type}, where redeliveries are not counted:"
            " use Shared or Key_Shared"
        )
    if options.retry is not None:
        if not options.ack_timeout_ms:
            yield (
                "retryEnable without ackTimeoutMillis: a message that the client does not answer is redelivered"
                " only when its consumer leaves"
            )
        if single_active:
            yield (
                f"retryEnable on {options.subscription_type}: retry letters are not delayed there, and redeliveries are"
                " not counted: use Shared or Key_Shared"
            )
