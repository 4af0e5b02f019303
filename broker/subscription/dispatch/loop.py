"""The loop that delivers: plan, find the entries, give them out, write (design 6, semantics 3.5).

`pump` is synchronous: while consumers keep up, an append is delivered in the callback that answers its commit, without
a task, a queue or a query. Only what is not in memory is read by a task, which pumps again when it has it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from broker.core.dispatchers.base import ReadKind, ReadPlan
from broker.core.position import Position
from broker.log.reader import READ_ENTRIES, GapInLog
from broker.storage.supervised import pause_after_faults_s
from broker.subscription.dispatch.filtering import SCREENED_FLAGS
from broker.subscription.dispatch.read_entries import read_entries
from broker.subscription.end_of_topic import tell_end_of_topic
from broker.subscription.requests import Delivery

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry
    from broker.core.ledgers.message_index import IndexMissing
    from broker.subscription.subscription import Subscription

__all__ = ["DispatchLoop"]

log = logging.getLogger(__name__)

# One turn of the loop delivers so much before other connections get theirs.
TURN_ENTRIES = 1000
TURN_BYTES = 4 * 1024 * 1024
# One write to one consumer: after it the transport is asked whether the peer takes more.
WRITE_BYTES = 1024 * 1024


class DispatchLoop:
    """Of one subscription, whose read position it moves."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._found_flags = 0  # of what was found for the plan under way
        self._just_read: dict[Position, StoredEntry] = {}  # between a read's end and the pump that follows it
        self._reading: asyncio.Task[None] | None = None
        self._read_faults = 0  # in a row
        self._is_pumping = False
        self._turn_scheduled = False

    def pump(self) -> None:
        """Deliver what can be delivered now. Cheap when there is nothing to do; safe to call at any time."""
        subscription = self._subscription
        if self._is_pumping or self._reading is not None or not self._may_send():
            return
        self._is_pumping = True
        try:
            self._deliver_turn()
        except Exception:
            # What was taken from the dispatcher may not have been sent: let everybody come again, from the cursor on.
            log.exception("%s, subscription %s: dispatch failed", subscription.topic.name, subscription.name)
            subscription.close_consumers("dispatch failed inside the broker; its log says why")
        finally:
            self._is_pumping = False

    def _deliver_turn(self) -> None:
        subscription = self._subscription
        entries = size_bytes = 0
        limit = subscription.dispatch_limit
        while limit is None or limit.entries():
            plan = subscription.dispatcher.next_read()
            if plan is None:
                break
            found = self._from_memory(plan)
            if found is None:
                break
            if not self._dispatch(found, plan):
                break
            entries += len(found)
            size_bytes += sum(len(entry.data) for entry in found)
            if entries >= TURN_ENTRIES or size_bytes >= TURN_BYTES:
                self._pump_soon()
                break

    def _may_send(self) -> bool:
        subscription = self._subscription
        return (
            bool(subscription.consumers)
            and subscription.topic.is_open
            and subscription.topic.services.may_send()
            and not subscription.moves.is_moving
            and not subscription.filter.is_holding
            and not subscription.is_paused
            and not subscription.gap
        )

    def _pump_soon(self) -> None:
        if not self._turn_scheduled:
            self._turn_scheduled = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turn_scheduled = False
        self.pump()

    def _from_memory(self, plan: ReadPlan) -> list[StoredEntry] | None:
        """The entries a plan asks for, as far as they are cached; None after starting a read, or at the end."""
        subscription = self._subscription
        if plan.kind is ReadKind.REPLAY:
            return self._replay_from_memory(plan.positions)
        log_ = subscription.topic.log
        ledgers, cached = log_.ledgers, log_.cached
        found: list[StoredEntry] = []
        holds_back = subscription.topic.delayed.holds_back(subscription.type)
        next_wanted = (
            partial(subscription.topic.delayed.next_ready, subscription.cursor)
            if holds_back
            else subscription.cursor.next_unacked
        )
        position = next_wanted(subscription.read_position)
        has_holes = holds_back or position <= subscription.cursor.last_acked
        size_bytes = flags = 0
        most = plan.max_entries
        if subscription.dispatch_limit is not None:
            most = min(most, subscription.dispatch_limit.entries())
        while len(found) < most and size_bytes < WRITE_BYTES:
            ledger = ledgers.get(position.ledger_id)
            if ledger is None or position.entry_id >= ledger.entries:
                break
            entries = cached.get(position.ledger_id)
            entry = None if entries is None else entries.get(position.entry_id)
            if entry is None and (entry := self._just_read.get(position)) is None:
                break
            found.append(entry)
            size_bytes += len(entry.data)
            flags |= entry.flags
            position = (
                Position(position.ledger_id, position.entry_id + 1)
                if position.entry_id + 1 < ledger.entries
                else ledgers.next_after(position)
            )
            if has_holes:
                position = next_wanted(position)
        subscription.read_position = position
        self._found_flags = flags
        if found:
            return found
        if ledgers.contains(position):
            self._read(partial(subscription.topic.reader.read_ahead, position))
        elif subscription.topic.is_terminated:
            tell_end_of_topic(subscription)
        return None

    def _replay_from_memory(self, positions: Sequence[Position]) -> list[StoredEntry] | None:
        subscription = self._subscription
        found: list[StoredEntry] = []
        size_bytes = flags = 0
        if subscription.dispatch_limit is not None:
            positions = positions[: subscription.dispatch_limit.entries()]
        for position in positions:
            entry = subscription.topic.log.cached_entry(position) or self._just_read.get(position)
            if entry is not None:
                found.append(entry)
                size_bytes += len(entry.data)
                flags |= entry.flags
                if size_bytes >= WRITE_BYTES:
                    break
            elif not subscription.topic.log.ledgers.contains(position):
                subscription.dispatcher.discard(position)  # trimmed since it was delivered
            elif found:
                break  # what comes after must not overtake it
            else:
                self._read_again(positions)
                return None
        self._found_flags = flags
        return found

    def _read_again(self, positions: Sequence[Position]) -> None:
        """With what comes next: a plan holds a hundred positions, delayed messages fall due by the thousand."""
        subscription = self._subscription
        chosen = [*positions, *subscription.dispatcher.upcoming_replays(READ_ENTRIES - len(positions))]
        self._read(partial(subscription.topic.reader.read_chosen, chosen))

    def _read(self, read: Callable[[], Awaitable[list[StoredEntry]]]) -> None:
        subscription = self._subscription
        self._reading = asyncio.create_task(self._read_then_pump(read), name=f"read {subscription.name}")

    async def _read_then_pump(self, read: Callable[[], Awaitable[list[StoredEntry]]]) -> None:
        subscription = self._subscription
        entries: list[StoredEntry] = []
        try:
            entries = await read()
        except GapInLog as error:
            subscription.gap = str(error)
            log.critical("%s, subscription %s: %s", subscription.topic.name, subscription.name, error)
        except Exception:
            self._read_faults += 1
            pause_s = pause_after_faults_s(self._read_faults)
            log.exception(
                "%s, subscription %s: a read failed; next try in %.1f s",
                subscription.topic.name,
                subscription.name,
                pause_s,
            )
            await asyncio.sleep(pause_s)
        else:
            self._read_faults = 0
        finally:
            self._reading = None
        # The cache may be too small to hold what was read until here.
        try:
            self._just_read = {Position(entry.ledger_id, entry.entry_id): entry for entry in entries}
            self.pump()
        finally:
            self._just_read = {}

    def load_counts_then_pump(self, missing: IndexMissing) -> None:
        """What was found cannot be settled before these counts are in memory; it is read again then."""
        subscription = self._subscription

        async def load() -> list[StoredEntry]:
            await subscription.topic.reader.load_index(missing.ranges)
            return []

        self._read(load)

    def stop_reading(self) -> None:
        """The topic goes away: a read would be repeated for as long as the database is."""
        if self._reading is not None:
            self._reading.cancel()

    def _dispatch(self, found: list[StoredEntry], plan: ReadPlan) -> bool:
        """Send what is to be sent of this; False when nothing more is to be read now."""
        subscription = self._subscription
        if self._found_flags & SCREENED_FLAGS or subscription.filter.is_pluggable:
            screened = subscription.filter.screen(found, plan)
            if screened is None:
                return False
            found = screened
        cursor = subscription.cursor
        plain = not cursor.has_partial_acks
        wanted = read_entries(found, cursor, subscription.type)
        now_ms = subscription.topic.services.clock.now_ms()
        assignments, unassigned = subscription.dispatcher.assign(wanted, plan, now_ms)
        if unassigned and not subscription.dispatcher.replays_unassigned:
            subscription.read_position = unassigned[0].position
        by_position = {Position(entry.ledger_id, entry.entry_id): entry for entry in found}
        interception = subscription.topic.services.interception
        for assignment in assignments:
            consumer = subscription.consumers.get(assignment.consumer.key)
            if consumer is None:
                continue  # left while another one was being written to; what it held is delivered again
            subscription.schedule_timeouts(consumer, assignment.entries, now_ms)
            deliveries = [
                Delivery(
                    by_position[each.position],
                    subscription.dispatcher.redelivery_count(each.position),
                    None if plain else cursor.remaining_of(each.position),
                )
                for each in assignment.entries
            ]
            if interception is not None:
                interception.sending(subscription, consumer, deliveries)
            if subscription.dispatch_limit is not None:
                subscription.dispatch_limit.sent(deliveries)
            out, redelivered = consumer.messages_out, consumer.messages_redelivered
            consumer.deliver(deliveries, now_ms)
            subscription.messages_out += consumer.messages_out - out
            subscription.messages_redelivered += consumer.messages_redelivered - redelivered
        services = subscription.topic.services
        if assignments and plan.kind is not ReadKind.REPLAY:
            services.instruments.dispatch_latency.observe(max(0, now_ms - found[0].append_ms) / 1000)
        services.reporter.changed(subscription)
        return not subscription.filter.is_holding
