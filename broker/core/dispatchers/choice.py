"""The dispatcher for a subscription type."""

from __future__ import annotations

from broker.core.dispatchers.base import Dispatcher
from broker.core.dispatchers.shared import SharedDispatcher
from broker.core.dispatchers.single_active import SingleActiveDispatcher
from broker.core.subscription import SubscriptionType, check_built


def dispatcher_for(
    subscription_type: SubscriptionType, *, max_unacked: int = 0, max_read_entries: int = 100
) -> Dispatcher:
    """A dispatcher without consumers. `max_unacked` messages for the subscription, 0 = unlimited (semantics
    3.6).

    Raises NotAllowed, naming the type, where there is no dispatcher for it.
    """
    check_built(subscription_type)
    if subscription_type.single_active:
        return SingleActiveDispatcher(max_read_entries=max_read_entries)
    return SharedDispatcher(max_unacked=max_unacked, max_read_entries=max_read_entries)
