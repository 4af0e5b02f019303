"""Owners of hash slots: every slot has one owner, and only the necessary slots move (I10)."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.dispatchers import hash_ring
from broker.core.dispatchers.base import DispatchConsumer
from broker.core.dispatchers.hash_ring import HashRing, ring_choice
from broker.core.dispatchers.key_shared_policy import KeySharedPolicy
from broker.core.dispatchers.range_split import RangeSplit
from broker.core.dispatchers.slot_selector import SlotSelector
from broker.core.dispatchers.sticky_ranges import StickyRanges
from broker.core.errors import ConsumerAssignFailed
from broker.core.hash_slots import SLOTS, SlotRange, slot_of_key, slot_of_position
from broker.core.position import Position
from tests.support.steps import counted_steps
from vela.wire.key_hash import murmur3_32

ALL = range(SLOTS)


def consumer(key: int, name: str = "", *ranges: tuple[int, int]) -> DispatchConsumer:
    policy = KeySharedPolicy(sticky=bool(ranges), ranges=tuple(SlotRange(*each) for each in ranges))
    return DispatchConsumer(key=key, name=name or f"c{key}", key_shared=policy)


def owners(selector: SlotSelector) -> list[DispatchConsumer | None]:
    return [selector.select(slot) for slot in ALL]


def check_ranges(selector: SlotSelector, consumers: list[DispatchConsumer]) -> None:
    """Check that `ranges` describes exactly what `select` answers."""
    said: list[DispatchConsumer | None] = [None] * SLOTS
    for each in consumers:
        last_before = -2
        for first, last in selector.ranges(each):
            assert last_before < first - 1 <= last - 1
            last_before = last
            said[first : last + 1] = [each] * (last - first + 1)
    assert said == owners(selector)


@pytest.mark.row("I10")
@given(
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=6),
    ring=st.booleans(),
    points=st.sampled_from([1, 7, 100]),
)
@settings(max_examples=25, deadline=None)
def test_every_slot_has_one_owner_and_only_necessary_slots_move(
    steps: list[tuple[bool, int]], ring: bool, points: int
) -> None:
    selector: SlotSelector = HashRing(points) if ring else RangeSplit()
    present: list[DispatchConsumer] = []
    key = 0
    before = owners(selector)
    for joins, choice in steps:
        if joins or not present:
            key += 1
            changed = consumer(key, f"c{choice % 3}")  # names may be the same
            present.append(changed)
            selector.add(changed)
        else:
            changed = present.pop(choice % len(present))
            selector.remove(changed)
        after = owners(selector)
        assert all((owner in present) if present else owner is None for owner in after)
        for was, now in zip(before, after, strict=True):
            assert was is now or now is changed or was is changed or was is None
        check_ranges(selector, present)
        before = after


def test_the_ring_spreads_the_slots_and_does_not_depend_on_the_order_of_joining() -> None:
    here = [consumer(key) for key in range(1, 6)]
    one, other = HashRing(), HashRing()
    for each in here:
        one.add(each)
    for each in reversed(here):
        other.add(each)
    assert owners(one) == owners(other)
    shares = [sum(last - first + 1 for first, last in one.ranges(each)) for each in here]
    assert sum(shares) == SLOTS
    assert min(shares) > SLOTS // 10


@pytest.mark.row("I10")
def test_consumers_of_one_name_have_places_of_their_own() -> None:
    ring = HashRing()
    twins = [consumer(1, "same"), consumer(2, "same")]
    for twin in twins:
        ring.add(twin)
        ring.add(twin)  # safe to repeat
    assert all(ring.ranges(twin) for twin in twins)
    ring.remove(twins[0])
    assert set(owners(ring)) == {twins[1]}
    ring.remove(twins[0])
    assert ring.select(5) is twins[1]


def test_a_newcomer_takes_half_of_the_largest_range_and_the_range_of_a_leaver_goes_to_a_neighbour() -> None:
    first, second, third = consumer(1), consumer(2), consumer(3)
    split = RangeSplit()
    split.add(first)
    assert split.ranges(first) == ((0, 65535),)
    split.add(second)
    assert (split.ranges(second), split.ranges(first)) == (((0, 32767),), ((32768, 65535),))
    split.add(third)
    assert (split.ranges(third), split.ranges(second)) == (((0, 16383),), ((16384, 32767),))
    split.remove(second)
    assert split.ranges(first) == ((16384, 65535),)
    split.remove(first)
    assert split.ranges(third) == ((0, 65535),)
    split.remove(third)
    assert split.select(0) is None


def test_sticky_ranges_belong_to_their_consumers_and_other_slots_to_none() -> None:
    sticky = StickyRanges()
    low, high = consumer(1, "low", (0, 9), (20, 29)), consumer(2, "high", (30, 65535))
    sticky.add(low)
    sticky.add(high)
    assert [sticky.select(slot) for slot in (0, 9, 10, 19, 20, 29, 30, 65535)] == [
        low,
        low,
        None,
        None,
        low,
        low,
        high,
        high,
    ]
    check_ranges(sticky, [low, high])
    for taken in ((0, 0), (9, 10), (5, 25), (19, 20), (29, 31), (65535, 65535)):
        with pytest.raises(ConsumerAssignFailed, match="overlaps"):
            sticky.add(consumer(3, "greedy", taken))
    check_ranges(sticky, [low, high])
    sticky.remove(low)
    assert sticky.select(0) is None
    sticky.add(consumer(3, "greedy", (9, 10)))


@pytest.mark.parametrize(
    ("ranges", "complaint"),
    [
        ((), "must name its hash ranges"),
        (((5, 4),), "5-4"),
        (((0, 65536),), "0-65536"),
        (((-1, 3),), "-1-3"),
        (((0, 10), (10, 20)), "overlap at slot 10"),
    ],
)
def test_invalid_sticky_ranges_are_refused(ranges: tuple[tuple[int, int], ...], complaint: str) -> None:
    policy = KeySharedPolicy(sticky=True, ranges=tuple(SlotRange(*each) for each in ranges))
    with pytest.raises(ConsumerAssignFailed, match=complaint):
        policy.check()


def test_a_ring_without_consumers_raises() -> None:
    with pytest.raises(ValueError, match="at least one consumer"):
        ring_choice({}, "t")


@given(
    names=st.lists(st.text(max_size=3), min_size=1, max_size=8, unique=True),
    key=st.text(max_size=4),
)
@settings(deadline=None)
def test_the_chosen_consumer_has_the_first_point_at_or_after_the_key(names: list[str], key: str) -> None:
    ring = sorted((murmur3_32(f"{name}{n}".encode()), name) for name in names for n in range(100))
    following = [name for point, name in ring if point >= murmur3_32(key.encode())] + [ring[0][1]]
    consumers = {name: consumer(number + 1, name) for number, name in enumerate(names)}
    assert ring_choice(consumers, key) is consumers[following[0]]


def test_a_choice_does_not_hash_the_names_of_earlier_choices_again() -> None:
    names = {f"app-{number}": consumer(number + 1) for number in range(50)}
    ring_choice(names, "t")
    with patch.object(hash_ring, "murmur3_32", side_effect=murmur3_32) as hashes:
        ring_choice(dict(list(names.items())[1:]), "t")
    assert hashes.call_count == 1


def test_one_of_many_consumers_comes_and_goes_at_the_price_of_its_own_points() -> None:
    counts = []
    for others in (20, 80):
        ring = HashRing()
        for key in range(1, others + 1):
            ring.add(consumer(key))
        one = consumer(1000)
        with counted_steps(hash_ring) as steps:
            ring.add(one)
            ring.ranges(one)
            ring.remove(one)
        counts.append(steps.count)
    assert counts[1] < 1.5 * counts[0]


def test_slots_begin_at_one_and_neighbours_are_spread() -> None:
    assert slot_of_key(b"") == 1
    slots = [slot_of_position(Position(7, entry_id)) for entry_id in range(1000)]
    assert min(slots) >= 1
    assert max(slots) < SLOTS
    assert len(set(slots)) == 1000
    thirds = [sum(slot // 21846 == third for slot in slots) for third in range(3)]
    assert min(thirds) > 300


def test_an_entry_without_a_key_has_the_same_slot_for_ever() -> None:
    positions = [Position(1, 0), Position(1, 1), Position(2, 0), Position(7, 40_000), Position(0, 0)]
    assert [slot_of_position(each) for each in positions] == [10423, 50927, 20847, 30988, 1]
