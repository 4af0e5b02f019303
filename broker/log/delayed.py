"""Delayed delivery of one topic. Shared and Key_Shared subscriptions skip an entry until the entry is due.

The table `vela_delayed_entry` stores the due times. Memory holds the nearest due times.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from broker.core.delayed import WINDOW_ENTRIES, DelayedEntries, DueEntry, next_ready
from broker.core.errors import NotAllowed
from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from broker.storage.log import delayed as store
from broker.storage.pool import repeat_until_done

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.core.cursor.cursor import Cursor
    from broker.core.entry import StoredEntry
    from broker.core.policies import Policies
    from broker.deadlines import Deadlines
    from broker.log.epochs import Epochs
    from broker.log.sends import SendRequest
    from broker.log.topic_log import TopicLog
    from broker.storage.pool import ConnectionPool

__all__ = ["DELAYING", "DelayedMessages", "ReplayTarget"]

logger = logging.getLogger(__name__)

RELEASE_ENTRIES: Final = 2000
DELAYING: Final = (SubscriptionType.SHARED, SubscriptionType.KEY_SHARED)
_FOR_EVER_MS: Final = (1 << 63) - 1
_LOOK_AGAIN_S: Final = 0.005
_LONGEST_WAIT_MS: Final = 250
_READ_AGAIN_MS: Final = 1000


class ReplayTarget(Protocol):
    """The methods that `DelayedMessages` calls on the topic's subscriptions."""

    def replay(self, positions: Sequence[Position]) -> None:
        """Send these entries on every subscription that skipped them."""

    def has_room_for_replays(self) -> bool:
        """Return whether more entries may be passed to `replay` now."""


class DelayedMessages:
    """The delayed messages of one topic. Not thread-safe."""

    def __init__(
        self,
        log: TopicLog,
        policies: Policies,
        target: ReplayTarget,
        *,
        clock: Clock,
        tick_ms: int,
        pool: ConnectionPool,
        epochs: Epochs,
        deadlines: Deadlines,
        keep: Callable[[asyncio.Task[Any]], None],
    ) -> None:
        """An entry may be sent up to `tick_ms` early, unless the policy `delayed_strict` is on."""
        self._log = log
        self._policies = policies
        self._target = target
        self._clock = clock
        self._tick_ms = tick_ms
        self._pool = pool
        self._epochs = epochs
        self._deadlines = deadlines
        self._keep = keep
        self._entries = DelayedEntries()
        self._last_row_ms = 0  # Latest due time among the rows stored or read so far
        self._pruned_through_ms = 0
        self._has_released = False  # Whether due entries were sent since the last `prune`
        self._released_ms = 0
        self._is_looking_again = False
        self._first_ledger = 0  # The log's first ledger when `prune` last ran

    def load(self, waiting: Sequence[tuple[int, Sequence[int]]]) -> None:
        """Add the waiting entries from the table. Call this before any read or append."""
        for ledger_id, entry_ids in waiting:
            self._entries.load(ledger_id, entry_ids)
        if waiting:
            self._entries.horizon = DueEntry(0, 0, 0)
            self._refill_if_needed()

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"the delayed messages of {self._log.name}"

    @property
    def near_entries(self) -> int:
        """The number of due times in memory."""
        return self._entries.near_entries

    def passes_over(self, type_: SubscriptionType) -> bool:
        """Return whether subscriptions of this type must skip delayed entries now."""
        return bool(len(self._entries)) and type_ in DELAYING and self._policies.delayed_delivery

    def next_ready(self, cursor: Cursor, position: Position) -> Position:
        """Return the next position to read, at or after `position`. Call this only if `passes_over` returns true."""
        return next_ready(cursor, self._entries.waiting, position)

    def is_early(self, entry: StoredEntry, type_: SubscriptionType, now_ms: int) -> bool:
        """Return whether it is too early to send this entry on a subscription of this type."""
        return (
            type_ in DELAYING
            and self._policies.delayed_delivery
            and entry.deliver_at_ms > self._limit_ms(now_ms)
        )

    def refusal(self, request: SendRequest) -> NotAllowed | None:
        """Return an error if the delay of this send is too long, otherwise None."""
        most_ms = self._policies.max_delay_ms
        delay_ms = request.deliver_at_ms - self._clock.now_ms()
        if most_ms and delay_ms > most_ms:
            return NotAllowed(
                f"the delay is {delay_ms} ms; {self._log.name} takes at most {most_ms} ms (policy max_delay_ms)"
            )
        return None

    def appended(self, entries: Sequence[StoredEntry]) -> None:
        """Add delayed entries that were just stored. `entries` must not be empty."""
        for entry in entries:
            self._entries.add(DueEntry(entry.deliver_at_ms, entry.ledger_id, entry.entry_id))
        self._last_row_ms = max(self._last_row_ms, max(entry.deliver_at_ms for entry in entries))
        self._watch()

    def keep_back(self, entry: StoredEntry) -> None:
        """Add an entry that was read too early. The table may no longer have a row for the entry."""
        self._entries.add(DueEntry(entry.deliver_at_ms, entry.ledger_id, entry.entry_id), stored=False)
        self._watch()

    def run_due(self, now_ms: int) -> int:
        """Send at most RELEASE_ENTRIES due entries and return their number. Safe to repeat."""
        if not self._log.is_open:
            return 0
        limit_ms = self._limit_ms(now_ms)
        due_ms = self._entries.next_due_ms()
        if due_ms is not None and due_ms <= limit_ms and not self._has_room(now_ms):
            self._look_again()
            return 0
        released = self._entries.pop_due(limit_ms, most=RELEASE_ENTRIES)
        self._refill_if_needed()
        if released:
            self._has_released = True
            self._released_ms = now_ms
            self._target.replay(released)
        if len(released) == RELEASE_ENTRIES:
            # Do not rely on the timer in `Deadlines`, which may be disabled.
            asyncio.get_running_loop().call_soon(self._release_more)
        return len(released)

    def next_due_ms(self) -> int | None:
        """Return when to call `run_due` next, in Unix milliseconds.

        Returns None if the log is closed or no due time is in memory. Otherwise, returns 0 if delayed delivery is off.
        """
        if not self._log.is_open:
            return None
        due_ms = self._entries.next_due_ms()
        if due_ms is None:
            return None
        return due_ms - self._slack_ms() if self._policies.delayed_delivery else 0

    def policies_changed(self, policies: Policies) -> None:
        """Apply new policies. If delayed delivery was switched off, all waiting entries become due at once."""
        self._policies = policies
        asyncio.get_running_loop().call_soon(self._release_more)

    def _has_room(self, now_ms: int) -> bool:
        # Subscriptions replay entries in the order of positions, not of due times. If a busy subscription got all
        # due entries together, the entries at the highest positions would wait for seconds.
        return self._target.has_room_for_replays() or now_ms - self._released_ms >= _LONGEST_WAIT_MS

    def _look_again(self) -> None:
        # Use a separate timer, because the timer in `Deadlines` may be disabled.
        if not self._is_looking_again:
            self._is_looking_again = True
            asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, self._look)

    def _look(self) -> None:
        self._is_looking_again = False
        self._release_more()

    def _release_more(self) -> None:
        self.run_due(self._clock.now_ms())
        self._watch()

    def _slack_ms(self) -> int:
        return 0 if self._policies.delayed_strict else self._tick_ms

    def _limit_ms(self, now_ms: int) -> int:
        return now_ms + self._slack_ms() if self._policies.delayed_delivery else _FOR_EVER_MS

    def _watch(self) -> None:
        due_ms = self.next_due_ms()
        if due_ms is not None:
            self._deadlines.watch(self, due_ms)

    def _refill_if_needed(self) -> None:
        if self._entries.needs_refill and self._log.is_open:
            task = asyncio.create_task(
                self._refill(self._entries.begin_refill()), name=f"due times of {self._log.name}"
            )
            self._keep(task)

    async def _refill(self, after: DueEntry) -> None:
        try:
            rows = await repeat_until_done(
                self._pool,
                lambda c: store.due_after(c, self._log.topic_id, after=after, most=WINDOW_ENTRIES),
                what="reading due times",
            )
        except Exception:
            logger.exception("%r: reading their due times failed; trying again", self)
            self._entries.give_up_refill()
            self._deadlines.watch(self, self._clock.now_ms() + _READ_AGAIN_MS)
            return
        self._entries.refill([DueEntry(*row) for row in rows], is_all=len(rows) < WINDOW_ENTRIES)
        self._last_row_ms = max(self._last_row_ms, rows[-1][0] if rows else 0)
        self._release_more()

    @property
    def needs_pruning(self) -> bool:
        """Whether the table may have rows to delete."""
        log = self._log
        return log.is_open and (
            self._has_released
            or self._pruned_through_ms < self._last_row_ms <= self._clock.now_ms()
            or (len(self._entries) > 0 and log.ledgers.first_position().ledger_id > self._first_ledger)
        )

    async def prune(self) -> None:
        """Delete the rows of entries that were passed to `replay` or trimmed. Safe to repeat.

        Raises psycopg.Error if PostgreSQL refuses a statement.
        """
        log = self._log
        now_ms, first = self._clock.now_ms(), log.ledgers.first_position().ledger_id
        through_ms = min(now_ms, self._entries.popped_through_ms(now_ms))
        self._has_released = False
        if through_ms > self._pruned_through_ms:
            await self._epochs.write(
                log,
                lambda connection, epoch: store.prune(
                    connection, topic_id=log.topic_id, owner_epoch=epoch, due_through_ms=through_ms
                ),
                what="deleting due times that have passed",
            )
            self._pruned_through_ms = through_ms
        if first > self._first_ledger and self._entries.forget_before(Position(first, 0)):
            await self._epochs.write(
                log,
                lambda connection, epoch: store.prune_trimmed(
                    connection, topic_id=log.topic_id, owner_epoch=epoch, first_ledger=first
                ),
                what="deleting due times of trimmed messages",
            )
        self._first_ledger = first
