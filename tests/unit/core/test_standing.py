"""The state shown for a subscription: a steady workload keeps one state, and a fault gets its own state in time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.core.subscription.flow_window import Sample
from broker.core.subscription.standing import Standing, SubscriptionState, Verdict

STUCK = SubscriptionState.STUCK
FALLING_BEHIND = SubscriptionState.FALLING_BEHIND
PAUSED = SubscriptionState.PAUSED
DRAINING = SubscriptionState.DRAINING
WATCHING = SubscriptionState.WATCHING
KEEPING_UP = SubscriptionState.KEEPING_UP
IDLE = SubscriptionState.IDLE

START_MS = 1_700_000_000_000
SETTLED_S = 120
# If a subscription is sampled only when something happens, its state may come this much earlier or later: 5 s, plus
# the 8 s between two acks.
RESTED_S = 5 + 8
EXAMPLES = 30  # each simulates a quarter of an hour, second by second
Total = Callable[[float], float]  # the number of messages up to a time in seconds


@dataclass(slots=True, kw_only=True)
class Watched:
    """A subscription whose totals are functions of time, sampled about once a second."""

    published: Total
    acked: Total
    jitter_ms: int = 0  # how much the time between two samples varies
    version: int = 0
    skipped: int = 0  # messages skipped by acts; negative if an act moved the cursor back
    is_paused: bool = False
    has_consumers: bool = True
    time_s: float = 0.0
    standing: Standing | None = None
    rested: Standing | None = None  # gets a sample only when something changed, or at `look_again_ms`
    _last: tuple[int, ...] = ()
    _same_s: float = 0.0
    _acked: int = 0
    said: list[tuple[float, Verdict]] = field(default_factory=list)

    def sample(self) -> Sample:
        """Return what the broker sees now."""
        published = int(self.published(self.time_s))
        self._acked = max(self._acked, min(published - self.skipped, int(self.acked(self.time_s))))
        done = self._acked + self.skipped
        return Sample(
            now_ms=START_MS + int(self.time_s * 1000),
            ready_messages=published,
            acked_messages=done,
            waiting_messages=published - done,
            cursor_version=self.version,
            is_paused=self.is_paused,
            has_consumers=self.has_consumers,
        )

    def run(self, until_s: float) -> Verdict:
        """Sample the subscription until `until_s`, and return the last verdict."""
        while self.time_s < until_s:
            sample = self.sample()
            if self.standing is None or self.rested is None:
                self.standing, self.rested = Standing(sample), Standing(sample)
            else:
                is_set_back = bool(self.said) and self.time_s < self.said[-1][0]
                self.said.append((self.time_s, self.standing.look(sample)))
                if sample[1:] != self._last or sample.now_ms >= self.rested.look_again_ms or is_set_back:
                    self.rested.look(sample)
                if self.rested.state is self.standing.state:
                    self._same_s = self.time_s
                assert self.time_s - self._same_s < RESTED_S, f"{self.rested.state} after {self.time_s} s"
            self._last = sample[1:]
            self.time_s += 1 + self.jitter_ms / 1000 * _noise(self.time_s)
        assert self.standing is not None
        return self.standing.verdict

    def words(self, since_s: float = 0.0) -> list[SubscriptionState]:
        """Return the states since `since_s`, in order; a state that lasts is listed once."""
        return [
            state for state, _ in groupby(verdict.state for at_s, verdict in self.said if at_s >= since_s)
        ]


def _noise(seed: float) -> float:
    """Return a number between -1 and 1 that looks random."""
    return (hash(round(seed, 3)) * 2_654_435_761 % 2_000_003) / 1_000_001.5 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Producers publish steadily or in bursts; consumers ack each message after a while, alone or in batches."""

    rate: float  # messages a second
    burst_s: float  # time between two bursts; 0 = messages come one by one
    ack_batch_s: float  # time between two acks; 0 = each message is acked alone
    ack_delay_s: float
    ack_jitter_s: float  # the delay varies by this much

    def published(self, at_s: float) -> float:
        """Return how many messages were published by that time."""
        at_s = max(at_s, 0.0)
        return self.rate * (at_s // self.burst_s * self.burst_s if self.burst_s else at_s)

    def acked(self, at_s: float) -> float:
        """Return how many messages were acked by that time."""
        acks_s = at_s // self.ack_batch_s * self.ack_batch_s if self.ack_batch_s else at_s
        return self.published(acks_s - self.ack_delay_s - self.ack_jitter_s * abs(_noise(acks_s)))


WORKLOADS = st.builds(
    Workload,
    rate=st.floats(0.3, 5000),
    burst_s=st.sampled_from([0.0, 0.5, 1.0, 1.01, 3.0]),
    ack_batch_s=st.sampled_from([0.0, 0.1, 1.0, 2.5, 5.0, 8.0]),
    ack_delay_s=st.floats(0, 5),
    ack_jitter_s=st.floats(0, 2),
)
JITTERS = st.sampled_from([0, 5, 200])


@settings(max_examples=EXAMPLES)
@given(WORKLOADS, JITTERS)
@example(Workload(rate=100, burst_s=1.0, ack_batch_s=0, ack_delay_s=0.9, ack_jitter_s=0), 5)
@example(Workload(rate=5000, burst_s=0, ack_batch_s=5, ack_delay_s=0, ack_jitter_s=0), 0)
@example(Workload(rate=100, burst_s=0, ack_batch_s=28, ack_delay_s=8, ack_jitter_s=0), 0)
def test_a_steady_workload_keeps_one_state(work: Workload, jitter_ms: int) -> None:
    watched = Watched(published=work.published, acked=work.acked, jitter_ms=jitter_ms)
    watched.run(600)
    assert watched.words(SETTLED_S) == [KEEPING_UP]


def test_bursts_onto_a_standing_backlog_are_neither_falling_behind_nor_draining() -> None:
    watched = Watched(published=lambda at_s: 3000 + at_s // 12 * 1200, acked=lambda at_s: at_s * 100)
    watched.run(900)
    assert watched.words(SETTLED_S) == [KEEPING_UP]


@pytest.mark.parametrize(
    ("every_s", "handling_s", "word"),
    [
        (60, 10, KEEPING_UP),
        (60, 0.01, KEEPING_UP),
        (15, 10, KEEPING_UP),
        (180, 20, KEEPING_UP),
        (3600, 20, IDLE),
    ],
)
def test_a_trickle_keeps_one_state(every_s: float, handling_s: float, word: SubscriptionState) -> None:
    watched = Watched(
        published=lambda at_s: at_s // every_s, acked=lambda at_s: max(0, (at_s - handling_s) // every_s)
    )
    watched.run(4 * 3600)
    assert watched.words(2 * every_s + SETTLED_S) == [word]


@pytest.mark.parametrize("has_consumers", [True, False], ids=["consumer", "client-that-pulls"])
def test_a_slow_consumer_is_called_stuck_once_and_then_known_to_be_slow(has_consumers: bool) -> None:
    watched = Watched(
        published=lambda at_s: at_s / 10, acked=lambda at_s: at_s // 50, has_consumers=has_consumers
    )
    watched.run(3600)
    assert STUCK not in watched.words(51)
    assert STUCK in watched.words()


def test_a_slow_consumer_that_leaves_leaves_a_stuck_subscription() -> None:
    watched = Watched(published=lambda at_s: at_s / 10, acked=lambda at_s: min(at_s, 1800) // 50 * 5)
    assert watched.run(1801).state is KEEPING_UP
    watched.has_consumers = False
    assert watched.run(1845).state is STUCK  # The first message waits since 1810


def test_the_time_without_a_consumer_is_no_sign_that_the_consumer_is_slow() -> None:
    watched = Watched(published=lambda at_s: at_s, acked=lambda at_s: 0 if at_s < 300 else min(at_s, 310))
    watched.has_consumers = False
    assert watched.run(290).state is STUCK
    watched.has_consumers = True
    assert watched.run(310).state is WATCHING
    assert watched.run(345).state is STUCK


def test_a_consumer_that_fails_again_after_a_long_outage_is_stuck_again_at_once() -> None:
    watched = Watched(published=lambda _: 500, acked=lambda at_s: 20 if at_s >= 700 else 0)
    watched.run(700)
    assert watched.run(735).state is STUCK


@settings(max_examples=EXAMPLES)
@given(WORKLOADS, JITTERS, st.floats(0.05, 0.8))
def test_a_consumer_that_is_too_slow_is_falling_behind(work: Workload, jitter_ms: int, share: float) -> None:
    watched = Watched(
        published=lambda at_s: 10 * work.published(at_s),
        acked=lambda at_s: 10 * share * work.acked(at_s),
        jitter_ms=jitter_ms,
    )
    watched.run(900)
    assert watched.words(400) == [FALLING_BEHIND]


@settings(max_examples=EXAMPLES)
@given(WORKLOADS, JITTERS, st.floats(0.3, 3.0), st.floats(300, 900))
@example(Workload(rate=1, burst_s=1.01, ack_batch_s=5, ack_delay_s=1, ack_jitter_s=0), 200, 0.5, 300)
def test_a_shrinking_backlog_is_draining_until_it_is_empty(
    work: Workload, jitter_ms: int, net: float, backlog_s: float
) -> None:
    backlog = 10 * work.rate * backlog_s * net

    def acked(at_s: float) -> float:
        return 10 * (1 + net) * work.acked(at_s)

    watched = Watched(
        published=lambda at_s: backlog + 10 * work.published(at_s), acked=acked, jitter_ms=jitter_ms
    )
    watched.run(0.85 * backlog_s)
    words = watched.words()
    assert words[0] is WATCHING
    assert words[-1] is DRAINING
    assert set(words[1:-1]) <= {KEEPING_UP}
    assert watched.words(120) == [DRAINING]
    watched.run(backlog_s + 120)
    assert watched.words(backlog_s + 60) == [KEEPING_UP]


def test_the_time_left_is_by_the_net_rate_of_the_window() -> None:
    watched = Watched(published=lambda at_s: 100_000 + 10 * at_s, acked=lambda at_s: at_s // 3 * 330)
    verdict = watched.run(200)
    assert verdict.state is DRAINING
    assert verdict.drain_s == pytest.approx((100_000 - 100 * 200) / 100, rel=0.15)


@settings(max_examples=EXAMPLES)
@given(WORKLOADS, JITTERS, st.floats(0, 30))
def test_a_consumer_that_stops_is_stuck_within_35_s_and_leaves_with_its_first_ack(
    work: Workload, jitter_ms: int, more_s: float
) -> None:
    stops_s = 300 + more_s
    back_s = stops_s + 200
    stopped = work.acked(stops_s)

    def acked(at_s: float) -> float:
        return stopped if stops_s <= at_s < back_s else work.acked(at_s)

    watched = Watched(published=work.published, acked=acked, jitter_ms=jitter_ms)
    watched.run(stops_s)
    # The first message that nobody acks may come some time after the stop.
    waits_s = 35 + max(work.burst_s, 1 / work.rate) + work.ack_delay_s + work.ack_jitter_s + work.ack_batch_s
    assert watched.run(stops_s + waits_s).state is STUCK
    assert watched.run(back_s).state is STUCK
    assert watched.words(stops_s + waits_s) == [STUCK]
    assert watched.run(back_s + 3 + work.ack_batch_s).state is WATCHING
    watched.run(back_s + 200)
    assert set(watched.words(back_s + 60)) <= {KEEPING_UP, DRAINING}


def test_a_subscription_that_never_acks_is_stuck() -> None:
    watched = Watched(published=lambda _: 7, acked=lambda _: 0)
    watched.run(100)
    assert watched.words() == [WATCHING, STUCK]


def test_a_message_that_comes_back_for_ever_makes_a_subscription_stuck_once_no_other_is_acked() -> None:
    watched = Watched(published=lambda at_s: min(at_s, 600), acked=lambda at_s: min(at_s, 600) - 1)
    assert watched.run(590).state is KEEPING_UP
    assert watched.run(640).state is STUCK


def test_delayed_messages_do_not_make_a_subscription_stuck() -> None:
    watched = Watched(published=lambda _: 0, acked=lambda _: 0)  # delayed messages do not count in its totals
    watched.run(2000)
    assert watched.words() == [WATCHING, IDLE]


def test_a_burst_into_an_idle_subscription_is_draining_and_then_idle_again() -> None:
    watched = Watched(
        published=lambda at_s: 100_000 if at_s >= 700 else 0, acked=lambda at_s: max(0, (at_s - 700) * 500)
    )
    watched.run(1500)
    assert watched.words() == [WATCHING, IDLE, KEEPING_UP, DRAINING, IDLE]


def test_a_paused_subscription_is_paused_and_watched_again_when_it_resumes() -> None:
    watched = Watched(published=lambda at_s: at_s, acked=lambda at_s: at_s)
    watched.run(100)
    watched.is_paused = True
    watched.run(200)
    watched.is_paused = False
    watched.run(300)
    assert watched.words() == [WATCHING, KEEPING_UP, PAUSED, WATCHING, KEEPING_UP]


def test_a_subscription_for_which_nothing_waits_can_be_paused() -> None:
    watched = Watched(published=lambda at_s: min(50, at_s), acked=lambda at_s: at_s)
    watched.run(100)
    watched.is_paused = True
    assert watched.run(200).state is PAUSED
    watched.is_paused = False
    watched.run(300)
    assert watched.words() == [WATCHING, KEEPING_UP, PAUSED, WATCHING, IDLE]


def act(watched: Watched, skipped: int) -> None:
    """Skip messages, or deliver them again if the number is negative."""
    watched.skipped += skipped
    watched.version += 1


@pytest.mark.parametrize("acked", [lambda at_s: at_s, lambda at_s: min(50, at_s)])
def test_a_cursor_that_was_moved_back_is_watched_again(acked: Total) -> None:
    watched = Watched(published=lambda at_s: at_s, acked=acked)
    before = watched.run(100).state
    act(watched, -40)
    assert watched.run(101).state is WATCHING
    assert watched.run(150).state is before


@pytest.mark.parametrize(("share", "word"), [(0.0, STUCK), (0.5, FALLING_BEHIND)])
def test_a_quota_that_skips_every_few_seconds_hides_nothing(share: float, word: SubscriptionState) -> None:
    watched = Watched(published=lambda at_s: 20_000 + at_s * 100, acked=lambda at_s: at_s * 100 * share)
    for until_s in range(5, 400, 5):
        watched.run(until_s)
        act(watched, int(500 * (1 - share)))
    assert watched.words(100) == [word]


def test_a_backlog_without_a_consumer_that_was_cleared_is_stuck_again_when_it_is_back() -> None:
    watched = Watched(published=lambda _: 500, acked=lambda _: 0)
    assert watched.run(300).state is STUCK
    act(watched, 500)
    watched.run(310)
    act(watched, -500)
    assert watched.run(350).state is STUCK


def test_a_cleared_backlog_is_no_longer_stuck() -> None:
    watched = Watched(published=lambda _: 500, acked=lambda _: 0)
    assert watched.run(100).state is STUCK
    act(watched, 499)
    assert watched.run(102).state is STUCK
    act(watched, 1)
    assert watched.run(103).state is WATCHING
    assert watched.run(150).state is IDLE


@pytest.mark.parametrize("step_s", [-7200, 7200])
def test_a_clock_that_is_set_begins_a_new_window(step_s: float) -> None:
    watched = Watched(published=lambda _: 5, acked=lambda _: 0)
    watched.run(20)
    watched.time_s += step_s
    at_s = watched.time_s
    assert watched.run(at_s + 20).state is WATCHING
    assert watched.run(at_s + 40).state is STUCK


def test_a_clock_that_steps_back_a_little_changes_nothing() -> None:
    watched = Watched(published=lambda at_s: at_s, acked=lambda at_s: at_s - 3)
    for until_s in range(10, 300, 10):
        watched.run(until_s)
        watched.time_s -= 2
    assert watched.words() == [WATCHING, KEEPING_UP]


def test_after_a_long_idle_time_the_window_is_forgotten_and_a_trickle_is_still_seen() -> None:
    watched = Watched(published=lambda at_s: at_s // 60 if at_s > 500 else 0, acked=lambda at_s: at_s // 60)
    watched.run(300)
    assert watched.standing is not None
    assert watched.standing.is_forgettable(watched.sample())
    watched.time_s = 541
    watched.standing, watched.rested = (Standing(watched.sample(), IDLE) for _ in range(2))
    watched.run(2000)
    assert watched.words(500) == [IDLE, KEEPING_UP]
    assert watched.words(700) == [KEEPING_UP]


def test_the_state_takes_little_memory() -> None:
    watched = Watched(published=lambda at_s: at_s * 1e6, acked=lambda at_s: at_s * 1e6)
    watched.run(1000)
    standing = watched.standing
    assert standing is not None
    parts = list(_parts(standing))
    assert sum(sys.getsizeof(each) for each in parts) < 2000, parts


def _parts(thing: object) -> Iterator[object]:
    yield thing
    for name in getattr(type(thing), "__slots__", ()):
        if not isinstance(getattr(thing, name), SubscriptionState):
            yield from _parts(getattr(thing, name))


def test_a_message_that_comes_after_a_pause_between_looks_is_stuck_only_after_its_own_wait() -> None:
    """The broker seldom looks at a subscription for which nothing waits."""

    def at(time_s: float, published: int) -> Sample:
        return Sample(START_MS + int(time_s * 1000), published, 0, published, 0, False, True)

    standing = Standing(at(0, 0))
    for time_s in range(5, 65, 5):
        standing.look(at(time_s, 0))
    words = {time_s: standing.look(at(time_s, 1)).state for time_s in range(65, 96)}
    assert STUCK not in [words[time_s] for time_s in range(65, 94)]
    assert words[95] is STUCK


def test_a_pause_between_looks_is_not_a_gap_between_acks() -> None:
    def at(time_s: float, messages: int, waiting: int = 0) -> Sample:
        return Sample(START_MS + int(time_s * 1000), messages, messages - waiting, waiting, 0, False, True)

    standing = Standing(at(0, 0))
    for number in range(1, 5):  # each message comes after 14 s without a look, and is acked at once
        standing.look(at(14 * number, number))
    words = {time_s: standing.look(at(time_s, 5, waiting=1)).state for time_s in range(57, 90)}
    assert words[85] is not STUCK
    assert words[88] is STUCK
