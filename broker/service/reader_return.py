"""A reader's cursor that a seek moved waits for its reader, who was told to subscribe again (semantics 2.5)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.service.subscription import Subscription

__all__ = ["RETURN_S", "await_return"]

RETURN_S: Final = 60.0  # the longest pause between two attempts of Apache's clients


def await_return(subscription: Subscription) -> None:
    """Keep a cursor that goes with its last consumer, and that the last consumer has just left because of a seek.

    Call it before anything else can run: who comes back finds the moved cursor, not a new one where its request says,
    which after a seek by time is at the end. Nobody comes back within a minute: it goes.
    """
    subscription.topic.subscriptions.setdefault(subscription.name, subscription)
    asyncio.get_running_loop().call_later(RETURN_S, _forget_unless_back, subscription)


def _forget_unless_back(subscription: Subscription) -> None:
    if not subscription.consumers:
        subscription.topic.forget_subscription(subscription)
