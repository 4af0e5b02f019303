"""Objects that subscriptions need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.core.subscription.story_rows import StoryBuffer
    from broker.deadlines import Deadlines
    from broker.instruments import Instruments
    from broker.log.epochs import Epochs
    from broker.plugins import EntryFilter
    from broker.storage.pool import ConnectionPool
    from broker.subscription.interception import Interception
    from broker.subscription.settings import SubscriptionSettings
    from broker.subscription.storing.flusher import Flusher
    from broker.tasks import BackgroundTasks
    from broker.tracing.tracing import Tracing

__all__ = ["Storing", "Surroundings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Storing:
    """The objects that store cursors and cursor moves in PostgreSQL."""

    pool: ConnectionPool
    epochs: Epochs
    flusher: Flusher


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The objects that all subscriptions of a broker share."""

    settings: SubscriptionSettings
    clock: Clock
    deadlines: Deadlines
    tasks: BackgroundTasks
    instruments: Instruments
    story_buffer: StoryBuffer
    entry_filters: Sequence[EntryFilter]
    tracing: Tracing | None  # None means VELA_OTEL is off
    interception: Interception | None
    may_send: Callable[[], bool]  # False while another process may own the topics
    next_key: Callable[[], int]  # Returns a key for a new consumer
