"""What a subscription needs apart from its topic and its log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.deadlines import Deadlines
    from broker.instruments import Instruments
    from broker.log.epochs import Epochs
    from broker.plugins import EntryFilter
    from broker.storage.pool import ConnectionPool
    from broker.subscription.flusher import Flusher
    from broker.subscription.interception import Interception
    from broker.subscription.settings import SubscriptionSettings
    from broker.tasks import BackgroundTasks

__all__ = ["Storing", "Surroundings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Storing:
    """How cursors, moves and acts get into PostgreSQL."""

    pool: ConnectionPool
    epochs: Epochs
    flusher: Flusher


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all subscriptions of a broker share."""

    settings: SubscriptionSettings
    clock: Clock
    deadlines: Deadlines
    tasks: BackgroundTasks
    instruments: Instruments
    entry_filters: Sequence[EntryFilter]
    interception: Interception | None  # None = no interceptors are configured
    may_send: Callable[[], bool]  # False while this process may have lost its topics
    next_key: Callable[[], int]  # of a consumer, unique in this process
