"""Determine the state of a subscription from its recent history.

See docs/reference/subscription-states.md for the states and the thresholds.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from broker.core.subscription.flow_window import (
    GAPS,
    LONGEST_WAIT_MS,
    WINDOW_MS,
    FlowWindow,
    LongestGap,
    Sample,
    Totals,
)

__all__ = ["Standing", "SubscriptionState", "Verdict"]

_STUCK_AFTER_MS: Final = 30_000
_IDLE_AFTER_MS: Final = 60_000
_LONGEST_RECURRING_MS: Final = LONGEST_WAIT_MS // GAPS
_FEW_MESSAGES: Final = 10
_CAUGHT_UP_S: Final = 1
_NOTABLE_S: Final = 10
_MOST_NOTABLE_S: Final = 60
_LEAST_STAY_MS: Final = 30_000
_STAYS: Final = 3
_FORGET_ANCHOR_MS: Final = 3_600_000
_LOOK_MS: Final = 1_000


class SubscriptionState(IntEnum):
    """The states of a subscription, worst first. The database stores the values."""

    STUCK = 1
    FALLING_BEHIND = 2
    PAUSED = 3
    DRAINING = 4
    WATCHING = 5
    KEEPING_UP = 6
    IDLE = 7

    @property
    def words(self) -> str:
        """The state in words, such as `falling behind`."""
        return self.name.lower().replace("_", " ")


class Verdict(NamedTuple):
    """The state of a subscription, and the time when the state began."""

    state: SubscriptionState
    since_ms: int
    drain_s: int | None  # Seconds until no message waits; None if unknown or if the state is not DRAINING


class Standing:
    """Determines the state of one subscription.

    Call `look` each second while messages arrive, wait or are acked. At other times, wait until `look_again_ms`
    before the next call. Drop an instance once `is_forgettable` returns true.
    """

    __slots__ = (
        "_ack_gap",
        "_acked",
        "_acked_by_consumers",
        "_arrival_gap",
        "_arrived_ms",
        "_came_or_went",
        "_drain_s",
        "_drains_from",
        "_had_consumers",
        "_highest",
        "_highest_at",
        "_is_recurring",
        "_lowest",
        "_lowest_ms",
        "_moves_until_ms",
        "_progress_ms",
        "_ready",
        "_seen_ms",
        "_since_ms",
        "_version",
        "_waits",
        "_window",
        "state",
    )

    def __init__(self, sample: Sample, state: SubscriptionState = SubscriptionState.WATCHING) -> None:
        """Pass IDLE as `state` to replace an instance that was dropped as forgettable."""
        self.state = state
        self._since_ms = sample.now_ms
        self._drain_s: int | None = None
        self._window = FlowWindow()
        self._ack_gap = LongestGap()
        self._arrival_gap = LongestGap()
        self._acked_by_consumers = self._came_or_went = False
        self._had_consumers = sample.has_consumers
        # An instance that begins as IDLE was probably created because a message arrived.
        is_awake = state is SubscriptionState.IDLE
        self._arrived_ms = sample.now_ms if is_awake else sample.now_ms - LONGEST_WAIT_MS
        self._is_recurring = False
        self._moves_until_ms = 0
        self._begin(sample)
        if sample.is_paused:
            self._say(SubscriptionState.PAUSED, sample.now_ms)

    @property
    def verdict(self) -> Verdict:
        """The state as of the last sample."""
        return Verdict(self.state, self._since_ms, self._drain_s)

    @property
    def is_settled(self) -> bool:
        """Whether the state depends on events only, and not on time."""
        return self.state in (SubscriptionState.STUCK, SubscriptionState.PAUSED)

    @property
    def look_again_ms(self) -> int:
        """The time of the next sample if nothing changes before then."""
        soon_ms = self._seen_ms + _LOOK_MS
        if self._waits or self.is_settled:  # In a settled state, the window is empty
            return soon_ms
        if not self._window.is_full(self._seen_ms):
            return max(soon_ms, self._window.begin.at_ms + WINDOW_MS)
        if self.state is SubscriptionState.IDLE:
            return max(soon_ms, self._arrived_ms + _LONGEST_RECURRING_MS + 1)
        return max(soon_ms, self._arrived_ms + self._arrival_gap.patience_ms(_IDLE_AFTER_MS))

    def is_forgettable(self, sample: Sample) -> bool:
        """Return whether the subscription has been idle for so long that earlier samples no longer matter."""
        return (
            self.state is SubscriptionState.IDLE
            and not sample.waiting_messages
            and sample.now_ms - self._arrived_ms > _LONGEST_RECURRING_MS
        )

    def look(self, sample: Sample) -> Verdict:
        """Update the state from a new sample. Pass samples in the order in which they were taken."""
        self._came_or_went |= sample.has_consumers is not self._had_consumers
        state = self._judged(sample)
        self._seen_ms, self._waits = sample.now_ms, sample.waiting_messages > 0
        self._had_consumers = sample.has_consumers
        if state is not SubscriptionState.DRAINING:
            self._drain_s = None
        self._say(state, sample.now_ms)
        return self.verdict

    def _say(self, state: SubscriptionState, now_ms: int) -> None:
        if state is not self.state:
            self.state, self._since_ms = state, now_ms
        if self.is_settled:
            self._window.clear()

    def _judged(self, sample: Sample) -> SubscriptionState:
        if sample.is_paused:
            return SubscriptionState.PAUSED
        is_moved_back = sample.cursor_version != self._version and sample.acked_messages < self._acked
        if self.state is SubscriptionState.PAUSED or is_moved_back:
            self._begin(sample)
            return SubscriptionState.WATCHING
        if sample.cursor_version != self._version:
            self._skip(sample)
        if self.state is SubscriptionState.STUCK:
            return self._still_stuck(sample)
        if not -WINDOW_MS <= sample.now_ms - self._seen_ms <= self.look_again_ms - self._seen_ms + WINDOW_MS:
            self._begin(sample)  # The sample is late, or the clock was changed
            return SubscriptionState.WATCHING
        self._rest(sample)
        self._count(sample)
        self._window.add(sample)
        if sample.waiting_messages:
            waited_ms = sample.now_ms - self._progress_ms
            if waited_ms >= self._patience_ms(sample):
                return SubscriptionState.STUCK
        if self._window.is_full(sample.now_ms):
            return self._judged_by_window(sample)
        if self.state is SubscriptionState.IDLE and self._is_busy(sample):
            return SubscriptionState.KEEPING_UP
        return self.state

    def _patience_ms(self, sample: Sample) -> int:
        # After all consumers have left, it no longer matters how slowly they acked.
        if self._acked_by_consumers and not sample.has_consumers:
            return _STUCK_AFTER_MS
        return self._ack_gap.patience_ms(_STUCK_AFTER_MS)

    def _begin(self, sample: Sample) -> None:
        self._window.clear()
        self._window.add(sample)
        self._ready, self._acked = sample.ready_messages, sample.acked_messages
        self._version = sample.cursor_version
        self._seen_ms = self._progress_ms = sample.now_ms
        self._waits = sample.waiting_messages > 0
        self._lowest = self._highest = -1  # Unknown
        self._lowest_ms = sample.now_ms
        self._highest_at = self._drains_from = self._window.begin

    def _skip(self, sample: Sample) -> None:
        """Treat skipped messages as acked in all earlier samples.

        Do not begin a new window, because an exceeded backlog quota may move the cursor every few seconds.
        """
        messages = sample.acked_messages - self._acked
        self._version, self._acked = sample.cursor_version, sample.acked_messages
        self._window.skip(messages)
        if self._lowest >= 0:
            self._lowest, self._highest = max(0, self._lowest - messages), max(0, self._highest - messages)
        self._highest_at = self._highest_at.skipping(messages)
        self._drains_from = self._drains_from.skipping(messages)

    def _still_stuck(self, sample: Sample) -> SubscriptionState:
        self._arrived(sample)
        is_acked = sample.acked_messages != self._acked
        if not is_acked and sample.waiting_messages:
            return SubscriptionState.STUCK
        if is_acked:
            self._remember_gap(sample)
            self._ack_gap.age()
        self._begin(sample)
        return SubscriptionState.WATCHING

    def _remember_gap(self, sample: Sample) -> None:
        # If consumers came or went during the gap, forget the gap: it does not show how slowly consumers ack.
        gap_ms = sample.now_ms - self._progress_ms
        if not self._came_or_went and gap_ms < LONGEST_WAIT_MS:
            self._ack_gap.add(gap_ms)
        self._acked_by_consumers = sample.has_consumers or self._had_consumers
        self._came_or_went = False

    def _rest(self, sample: Sample) -> None:
        """If no message waited at the last sample, assume that no message waited one second ago."""
        rested_ms = sample.now_ms - _LOOK_MS
        if not self._waits and rested_ms > self._seen_ms:
            self._window.add(Sample(rested_ms, self._ready, self._acked, 0, self._version, False, False))

    def _count(self, sample: Sample) -> None:
        self._arrived(sample)
        if not self._waits:
            self._progress_ms = max(self._progress_ms, sample.now_ms - _LOOK_MS)
        if sample.acked_messages != self._acked:
            self._remember_gap(sample)
            self._acked = sample.acked_messages
            self._progress_ms = sample.now_ms
        elif not sample.waiting_messages:
            self._progress_ms = sample.now_ms

    def _arrived(self, sample: Sample) -> None:
        if sample.ready_messages > self._ready:
            gap_ms = sample.now_ms - self._arrived_ms
            self._is_recurring = gap_ms <= _LONGEST_RECURRING_MS
            if self._is_recurring:
                self._arrival_gap.add(gap_ms)
            self._arrived_ms = sample.now_ms
        self._ready = sample.ready_messages

    def _is_busy(self, sample: Sample) -> bool:
        return self._is_recurring or sample.waiting_messages > _FEW_MESSAGES

    def _is_quiet(self, now_ms: int) -> bool:
        return now_ms - self._arrived_ms >= self._arrival_gap.patience_ms(_IDLE_AFTER_MS)

    def _judged_by_window(self, sample: Sample) -> SubscriptionState:
        window, now_ms = self._window, sample.now_ms
        span_ms, arrived, acked = window.flow_since(0, sample)
        recent = window.recent(now_ms)
        low, high = window.lowest(recent), window.highest(recent)
        flow_per_s = max(arrived, acked) * 1000 / span_ms
        if low <= max(_FEW_MESSAGES, flow_per_s * _CAUGHT_UP_S):
            self._anchor(low, high, Totals.of(sample))
            return self._caught_up(sample)
        if self._lowest < 0:
            self._anchor(low, window.highest(0), window.begin)
        self._remember_extremes(low, high, sample)
        notable = self._notable(flow_per_s)
        _, arrived_lately, acked_lately = window.flow_since(recent, sample)
        state = self.state
        if low - self._lowest > notable and arrived_lately > acked_lately:
            state = SubscriptionState.FALLING_BEHIND
            self._moved(self._lowest_ms, now_ms)
            self._anchor(low, high, Totals.of(sample))
        elif self._highest - high > notable and acked_lately > arrived_lately:
            state = SubscriptionState.DRAINING
            self._moved(self._highest_at.at_ms, now_ms)
            self._drains_from = self._highest_at
            self._anchor(low, high, Totals.of(sample))
        elif not self._is_moving() or now_ms >= self._moves_until_ms:
            state = SubscriptionState.KEEPING_UP
        if state is SubscriptionState.DRAINING:
            self._drain_s = self._time_left_s(sample)
        return state

    def _time_left_s(self, sample: Sample) -> int | None:
        since_ms, ready, acked = self._drains_from
        net = sample.acked_messages - acked - (sample.ready_messages - ready)
        return sample.waiting_messages * (sample.now_ms - since_ms) // (net * 1000) if net > 0 else None

    def _caught_up(self, sample: Sample) -> SubscriptionState:
        if self.state is SubscriptionState.IDLE:
            return SubscriptionState.KEEPING_UP if self._is_busy(sample) else SubscriptionState.IDLE
        is_rare = self.state is SubscriptionState.WATCHING and not self._is_recurring
        is_quiet = is_rare or self._is_quiet(sample.now_ms)
        if is_quiet and not sample.waiting_messages:
            self._is_recurring = False
            return SubscriptionState.IDLE
        if is_quiet and self.state is SubscriptionState.DRAINING:
            self._drain_s = self._time_left_s(sample)
            return SubscriptionState.DRAINING
        return SubscriptionState.KEEPING_UP

    def _is_moving(self) -> bool:
        return self.state in (SubscriptionState.FALLING_BEHIND, SubscriptionState.DRAINING)

    def _notable(self, flow_per_s: float) -> float:
        """Return how much the number of waiting messages must rise or fall to count as a notable change.

        Smaller changes may come from acks in batches.
        """
        waves_s = min(_MOST_NOTABLE_S, 2 * self._ack_gap.ms / 1000)
        return max(_FEW_MESSAGES, flow_per_s * max(_NOTABLE_S, waves_s))

    def _moved(self, from_ms: int, now_ms: int) -> None:
        stay_ms = min(_FORGET_ANCHOR_MS, max(_LEAST_STAY_MS, _STAYS * (now_ms - from_ms)))
        self._moves_until_ms = now_ms + stay_ms

    def _anchor(self, low: int, high: int, at: Totals) -> None:
        self._lowest, self._highest = low, high
        self._lowest_ms, self._highest_at = at.at_ms, at

    def _remember_extremes(self, low: int, high: int, sample: Sample) -> None:
        if low <= self._lowest or sample.now_ms - self._lowest_ms > _FORGET_ANCHOR_MS:
            self._lowest, self._lowest_ms = low, sample.now_ms
        if high >= self._highest or sample.now_ms - self._highest_at.at_ms > _FORGET_ANCHOR_MS:
            self._highest, self._highest_at = high, Totals.of(sample)
