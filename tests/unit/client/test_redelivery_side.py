"""What a consumer asks for again, after negative acks and ack timeouts, and when."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.client.ack_link import (
    FakeLink,
    consumer,
    message,
    messages,
    take,
)
from vela.core.acks.negative_acks import NegativeAckTimer
from vela.errors import (
    InvalidConfiguration,
)
from vela.wire.redelivery_backoff import RedeliveryBackoff


# -- negative acks -------------------------------------------------------------------------------------------------
@pytest.mark.row("S4.16")
def test_a_negative_ack_is_sent_when_its_delay_is_over() -> None:
    owner = consumer(negative_ack_delay_ms=1000)
    owner.acks.negative_acknowledge(message(1))
    owner.timers.advance(500)
    owner.acks.negative_acknowledge(message(2))
    owner.timers.advance(499)
    assert owner.said() == []
    owner.timers.advance(33)
    assert owner.said() == [("again", 1)]
    assert owner.dropped == [(1, 1)]
    owner.timers.advance(500)
    assert owner.said() == [("again", 2)]
    assert owner.timers.running == 0


@pytest.mark.parametrize("asks_for_all", [False, True])
@pytest.mark.parametrize("batch_index_acks", [False, True])
def test_batches_that_may_go_to_another_consumer_are_forgotten(
    batch_index_acks: bool, asks_for_all: bool
) -> None:
    owner = consumer(negative_ack_delay_ms=100, batch_index_acks=batch_index_acks)
    for entry_id in range(10):
        acked, refused = messages(entry_id, 2)
        owner.acks.acknowledge(acked)
        owner.acks.negative_acknowledge(refused)
    assert len(owner.acks._acks._batches) == 10
    if asks_for_all:
        owner.acks.redeliver_all()
    else:
        owner.timers.advance(140)
    assert len(owner.acks._acks._batches) == 0


@pytest.mark.row("S4.16")
@pytest.mark.parametrize(
    ("timer", "within_ms"),
    [
        (NegativeAckTimer.PRECISE, (1000, 1033)),
        (NegativeAckTimer.TRUNCATED, (744, 1001)),
        (NegativeAckTimer.PERIODIC, (1000, 1335)),
    ],
)
def test_the_timers_of_other_clients_are_settings(
    timer: NegativeAckTimer, within_ms: tuple[int, int]
) -> None:
    owner = consumer(negative_ack_delay_ms=1000, negative_ack_timer=timer)
    owner.acks.negative_acknowledge(message(1))
    owner.timers.advance(within_ms[0] - 1)
    assert owner.said() == []
    owner.timers.advance(within_ms[1] - within_ms[0] + 1)
    assert owner.said() == [("again", 1)]


@pytest.mark.row("S4.16")
def test_a_shorter_back_off_overtakes_a_longer_one() -> None:
    backoff = RedeliveryBackoff(min_ms=1000, max_ms=60_000, multiplier=10)
    owner = consumer(negative_ack_backoff=backoff)
    owner.acks.negative_acknowledge(message(1, redeliveries=1))
    owner.acks.negative_acknowledge(message(2))
    owner.timers.advance(1100)
    assert owner.said() == [("again", 2)]
    owner.timers.advance(9000)
    assert owner.said() == [("again", 1)]


@pytest.mark.row("S4.17")
def test_2500_negative_acks_are_sent_in_three_commands() -> None:
    owner = consumer()
    for entry_id in range(2500):
        owner.acks.negative_acknowledge(message(entry_id))
    owner.timers.advance(60_100)
    assert [len(said) - 1 for said in owner.said()] == [1000, 1000, 500]


@pytest.mark.row("S4.18")
async def test_closing_drops_the_negative_acks() -> None:
    owner = consumer()
    owner.acks.negative_acknowledge(message(1))
    await owner.acks.close(5)
    assert owner.timers.running == 0
    assert owner.said() == []


@pytest.mark.row("S4.19")
def test_a_negative_ack_ends_the_ack_timeout_and_a_second_one_changes_nothing() -> None:
    owner = consumer(ack_timeout_ms=1000, ack_timeout_tick_ms=100, negative_ack_delay_ms=3000)
    take(owner, 1)
    owner.acks.negative_acknowledge(message(1))
    owner.timers.advance(2000)
    owner.acks.negative_acknowledge(message(1))
    take(owner, 1)  # another message of the same entry
    owner.timers.advance(900)
    owner.acks.negative_acknowledge(message(1))
    owner.timers.advance(10_000)
    assert owner.said() == [("again", 1)]


@pytest.mark.row("S4.20")
@pytest.mark.parametrize("batch_index_acks", [True, False])
def test_the_broker_hears_of_acks_before_it_is_asked_again(batch_index_acks: bool) -> None:
    owner = consumer(batch_index_acks=batch_index_acks, negative_ack_delay_ms=100)
    first, refused, last = messages(1, 3)
    owner.acks.negative_acknowledge(refused)
    owner.timers.advance(90)
    for each in (first, last, message(2)):
        owner.acks.acknowledge(each)
    owner.timers.advance(43)  # the acks are only 43 ms old; alone, they would be sent after 100 ms
    acked = [(1, 0b010), 2] if batch_index_acks else [2]
    assert owner.said() == [("ack", *acked), ("again", 1)]


@pytest.mark.row("S4.24")
def test_on_exclusive_a_negative_ack_asks_for_everything() -> None:
    owner = consumer(is_shared=False, ack_timeout_ms=5000, negative_ack_delay_ms=1000)
    take(owner, 1, 2, 3)
    owner.acks.negative_acknowledge(message(2))
    owner.acks.negative_acknowledge(message(3))
    owner.timers.advance(1033)
    assert (owner.all_again, owner.dropped, owner.said()) == (1, [], [])
    owner.timers.advance(60_000)
    assert owner.all_again == 1


@pytest.mark.row("I22")
def test_an_ack_cancels_an_earlier_negative_ack() -> None:
    owner = consumer(is_shared=False)
    for entry_id in (1, 2, 3):
        owner.acks.negative_acknowledge(message(entry_id))
    owner.acks.acknowledge(message(3))
    owner.acks.acknowledge_cumulative(message(2))
    owner.timers.advance(60_100)
    assert owner.all_again == 0


# -- the ack timeout -----------------------------------------------------------------------------------------------
@pytest.mark.row("S0.38")
def test_without_an_ack_timeout_there_is_no_timer() -> None:
    owner = consumer()
    take(owner, 1)
    assert owner.timers.running == 0


@pytest.mark.row("S0.38", "S0.45", "S4.21")
def test_the_timeout_begins_when_a_message_is_taken() -> None:
    owner = consumer(ack_timeout_ms=1000, ack_timeout_tick_ms=100)
    owner.acks.delivered(1, 1, 0, None)
    owner.timers.advance(5000)
    assert owner.timers.running == 0
    batch = messages(1, 3)
    owner.acks.taken(batch[0])
    owner.timers.advance(500)
    owner.acks.taken(batch[1])
    owner.timers.advance(500)
    assert owner.said() == []
    owner.timers.advance(200)
    assert owner.said() == [("again", 1)]
    assert owner.timers.running == 0


@pytest.mark.row("S4.25")
def test_a_waiting_message_does_not_time_out() -> None:
    owner = consumer(ack_timeout_ms=1000)
    for entry_id in range(1000):
        owner.acks.delivered(1, entry_id, 0, None)
    owner.timers.advance(60_000)
    assert owner.said() == []


@pytest.mark.row("S4.22")
@pytest.mark.parametrize("how", ["ack", "cumulative", "nack", "all again", "reconnect", "seek", "close"])
async def test_acks_redeliveries_and_lost_links_end_the_ack_timeout(how: str) -> None:
    owner = consumer(is_shared=False, ack_timeout_ms=1000, ack_timeout_tick_ms=100)
    take(owner, 1, 2)
    owner.timers.advance(800)
    match how:
        case "ack":
            owner.acks.acknowledge([message(1), message(2)])
        case "cumulative":
            owner.acks.acknowledge_cumulative(message(2))
        case "nack":
            owner.acks.negative_acknowledge(message(1))
            owner.acks.negative_acknowledge(message(2))
        case "all again":
            owner.acks.redeliver_all()
            assert owner.all_again == 1
            owner.all_again = 0
        case "reconnect":
            owner.acks.attached()
        case "seek":
            owner.acks.sought()
        case _:
            await owner.acks.close(5)
    owner.timers.advance(2000)
    assert owner.all_again == 0


@pytest.mark.row("S4.22")
@pytest.mark.parametrize("acked", [1, 2, 3])
def test_a_batch_times_out_until_its_last_message_is_acked(acked: int) -> None:
    owner = consumer(ack_timeout_ms=1000, ack_timeout_tick_ms=100)
    batch = messages(1, 3)
    for each in batch:
        owner.acks.taken(each)
    for each in batch[:acked]:
        owner.acks.acknowledge(each)
    owner.timers.advance(2000)
    assert (("again", 1) in owner.said()) is (acked < 3)


@pytest.mark.row("S4.27", "S4.28")
def test_with_a_back_off_the_wait_grows() -> None:
    backoff = RedeliveryBackoff(min_ms=1000, max_ms=60_000, multiplier=2)
    owner = consumer(ack_timeout_ms=1000, ack_timeout_tick_ms=100, ack_timeout_backoff=backoff)
    for count in range(3):
        owner.acks.taken(message(count, redeliveries=count))
    said = []
    for second in range(1, 8):
        owner.timers.advance(1000)
        said += [(second, *each) for each in owner.said()]
    assert said == [(3, "again", 0), (4, "again", 1), (6, "again", 2)]


@pytest.mark.row("S4.29")
def test_without_a_timeout_no_redelivery_is_ever_asked_for() -> None:
    owner = consumer()
    take(owner, *range(10))
    owner.timers.advance(600_000)
    assert owner.said() == []


@pytest.mark.row("S4.30")
@pytest.mark.parametrize(
    "options",
    [
        {"ack_timeout_ms": 999},
        {"ack_timeout_ms": 1000, "ack_timeout_tick_ms": 99},
        {"negative_ack_delay_ms": -1},
        {"group_ms": -1},
        {"group_size": 0},
    ],
)
def test_settings_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfiguration):
        consumer(**options)


class Letters:
    """Letters of these entries are being written, so the entries are taken out of redeliveries."""

    def __init__(self, *taken: int) -> None:
        self.taken = taken
        self.settled_positions: list[tuple[int, int]] = []

    def still_due(self, positions: list[tuple[int, int]], *, is_timeout: bool) -> list[tuple[int, int]]:
        return [position for position in positions if position[1] not in self.taken]

    def settled(self, position: tuple[int, int]) -> None:
        self.settled_positions.append(position)

    def settled_through(self, position: tuple[int, int]) -> None:
        pass

    def forget(self) -> None:
        pass


@pytest.mark.row("S4.31")
@pytest.mark.parametrize("is_shared", [True, False])
def test_if_all_due_messages_became_letters_no_redelivery_is_asked_for(is_shared: bool) -> None:
    owner = consumer(is_shared=is_shared)
    owner.acks.letters = Letters(1, 2)  # type: ignore[assignment]
    owner.acks.negative_acknowledge(message(1))
    owner.acks.negative_acknowledge(message(2))
    owner.timers.advance(60_100)
    assert (owner.said(), owner.all_again) == ([], 0)


def test_a_redelivery_that_is_due_without_a_link_is_not_needed() -> None:
    owner = consumer()
    owner.acks.negative_acknowledge(message(1))
    owner.link = None
    owner.timers.advance(60_100)
    owner.link = FakeLink()
    owner.acks.attached()
    assert owner.said() == []


@pytest.mark.row("S4.1")
@pytest.mark.parametrize("has_nacked", [True, False])
def test_leaving_failures_to_the_timeout_is_warned_of_once(
    has_nacked: bool, caplog: pytest.LogCaptureFixture
) -> None:
    owner = consumer(ack_timeout_ms=1000)
    if has_nacked:
        owner.acks.negative_acknowledge(message(9))
    take(owner, 1, 2)
    owner.timers.advance(5000)
    take(owner, 3)
    owner.timers.advance(5000)
    assert [said for said in owner.said() if said[0] == "again"] == [("again", 1, 2), ("again", 3)]
    said = [each.getMessage() for each in caplog.records if each.name.startswith("vela.")]
    assert ["negative_acknowledge" in text for text in said] == ([] if has_nacked else [True])
