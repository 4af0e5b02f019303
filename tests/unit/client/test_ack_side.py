"""What a consumer sends for its acks, negative acks and ack timeouts, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.client.ack_link import FakeConsumer, FakeLink, chunked_message, consumer, message, messages
from vela.core.acks.negative_acks import NegativeAckTimer
from vela.errors import (
    AlreadyClosed,
    CumulativeAcknowledgementNotAllowedError,
    InvalidConfiguration,
    NotConnected,
    OperationNotSupported,
    ReadError,
)
from vela.message import MessageId
from vela.wire.binary.enums import ValidationError
from vela.wire.redelivery_backoff import RedeliveryBackoff


def take(owner: FakeConsumer, *entry_ids: int) -> None:
    for entry_id in entry_ids:
        owner.acks.taken(message(entry_id))


# -- acks ----------------------------------------------------------------------------------------------------------


@pytest.mark.row("S4.9")
def test_acks_of_100_ms_are_one_command() -> None:
    owner = consumer()
    for entry_id in (5, 1, 3):
        owner.acks.acknowledge(message(entry_id))
        owner.timers.advance(30)
    assert owner.said() == []
    owner.timers.advance(10)
    assert owner.said() == [("ack", 1, 3, 5)]
    assert owner.timers.running == 0
    owner.acks.acknowledge(message(7))
    owner.timers.advance(100)
    assert owner.said() == [("ack", 7)]


@pytest.mark.row("S4.9")
def test_a_thousand_acks_do_not_wait() -> None:
    owner = consumer()
    for entry_id in range(1500):
        owner.acks.acknowledge(message(entry_id))
    assert owner.said() == [("ack", *range(1000))]
    owner.timers.advance(100)
    assert owner.said() == [("ack", *range(1000, 1500))]


@pytest.mark.row("S4.10")
def test_with_a_grouping_time_of_0_each_ack_goes_at_once() -> None:
    owner = consumer(group_ms=0, batch_index_acks=True)
    owner.acks.acknowledge(message(1))
    owner.acks.acknowledge(messages(2, 3)[1])
    assert owner.said() == [("ack", 1), ("ack", (2, 0b101))]
    assert owner.timers.running == 0


@pytest.mark.row("S4.10")
def test_acks_with_properties_are_not_gathered() -> None:
    owner = consumer(is_shared=False)
    owner.acks.acknowledge(message(1))
    owner.acks.acknowledge(message(2), {"at": 7})
    owner.acks.acknowledge_cumulative(message(9), {"at": 9})
    assert owner.said() == [("ack", 1), ("ack", 2), ("through", 9)]
    owner.link = None
    with pytest.raises(NotConnected):
        owner.acks.acknowledge(message(10), {"at": 10})


def test_a_list_is_acked_like_its_messages() -> None:
    owner = consumer(batch_index_acks=True)
    first, second, _ = messages(4, 3)
    owner.acks.acknowledge([message(1), first, second.message_id(), MessageId(-1, 1, 2)])
    owner.acks.acknowledge([])
    owner.timers.advance(100)
    assert owner.said() == [("ack", 1, 2, (4, 0b100))]
    assert owner.acks.acks_sent == 4


def test_an_id_that_was_written_down_acks_too() -> None:
    owner = consumer()
    for each in messages(4, 3):
        owner.acks.acknowledge(MessageId.deserialize(each.message_id().serialize()))
    owner.timers.advance(100)
    assert owner.said() == [("ack", 4)]


def test_all_pieces_of_a_message_are_acked_and_refused() -> None:
    owner = consumer()
    owner.acks.acknowledge(chunked_message(3, 5, 6))
    owner.acks.negative_acknowledge(chunked_message(7, 9).message_id())
    owner.timers.advance(60_100)
    assert owner.said() == [("ack", 3, 5, 6), ("again", 7, 9)]


def test_a_message_in_pieces_whose_time_is_up_comes_again_whole_but_not_once_it_is_acked() -> None:
    owner = consumer(ack_timeout_ms=1000)
    owner.acks.taken(chunked_message(3, 5, 6))
    owner.acks.taken(chunked_message(7, 9))
    owner.acks.acknowledge(chunked_message(7, 9))
    owner.timers.advance(2000)
    assert owner.said() == [("ack", 7, 9), ("again", 3, 5, 6)]


@pytest.mark.row("S4.5")
@pytest.mark.parametrize("is_shared", [True, False])
def test_a_cumulative_ack_is_for_the_types_that_keep_order(is_shared: bool) -> None:
    owner = consumer(is_shared=is_shared)
    if is_shared:
        with pytest.raises(CumulativeAcknowledgementNotAllowedError, match="Shared"):
            owner.acks.acknowledge_cumulative(message(5))
    else:
        owner.acks.acknowledge_cumulative(message(5))
    owner.timers.advance(100)
    assert owner.said() == ([] if is_shared else [("through", 5)])


def test_an_id_that_cannot_be_is_refused() -> None:
    owner = consumer(is_shared=False)
    with pytest.raises(OperationNotSupported, match="batch of"):
        owner.acks.acknowledge(MessageId(-1, 1, 1, 4, batch_size=3))
    with pytest.raises(OperationNotSupported, match="batch of"):
        owner.acks.acknowledge_cumulative(MessageId(-1, 1, 1, 4))


@pytest.mark.row("S4.8")
def test_on_topics_that_store_nothing_no_ack_is_sent() -> None:
    owner = consumer(is_persistent=False, is_shared=False, receipts=True)
    acked = owner.acks.acknowledge(message(1))
    owner.acks.acknowledge_cumulative(message(2))
    owner.acks.discard(1, 3, ValidationError.CHECKSUM_MISMATCH)
    owner.timers.advance(1000)
    assert owner.said() == []
    assert list(acked.__await__()) == []


def test_what_is_damaged_is_acked_at_once_with_the_reason() -> None:
    owner = consumer()
    owner.acks.discard(1, 3, ValidationError.BATCH_DESERIALIZE_ERROR)
    assert owner.said() == [("ack", 3, ValidationError.BATCH_DESERIALIZE_ERROR)]


@pytest.mark.row("S4.12")
async def test_without_receipts_an_ack_is_over_at_once() -> None:
    owner = consumer()
    await owner.acks.acknowledge(message(1))
    owner.link = None
    await owner.acks.acknowledge(message(2))
    assert owner.acks.acknowledge(message(3)) is owner.acks.acknowledge(message(4)), "nothing is made for it"


@pytest.mark.row("S4.12")
async def test_with_receipts_it_ends_when_the_broker_says_so() -> None:
    owner = consumer(receipts=True, group_ms=0)
    assert owner.link is not None
    first = asyncio.ensure_future(_wait(owner, 1))
    await asyncio.sleep(0)
    assert owner.said() == [("ack", 1)]
    assert not first.done()
    owner.link.answers[0].set_result(None)
    await first
    second = asyncio.ensure_future(_wait(owner, 2))
    await asyncio.sleep(0)
    owner.link.answers[1].set_exception(ReadError("the connection is lost"))
    with pytest.raises(ReadError):
        await second


async def _wait(owner: FakeConsumer, entry_id: int) -> None:
    await owner.acks.acknowledge(message(entry_id))


@pytest.mark.row("S4.12")
async def test_the_acks_of_a_group_share_a_receipt_and_one_given_up_leaves_it_to_the_others() -> None:
    owner = consumer(receipts=True)
    waiting = [asyncio.ensure_future(_wait(owner, entry_id)) for entry_id in (1, 2)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    owner.timers.advance(100)
    assert owner.said() == [("ack", 1, 2)]
    assert owner.link is not None
    owner.link.answers[0].set_result(None)
    await waiting[1]
    assert waiting[0].cancelled()


@pytest.mark.row("S4.12")
async def test_a_partial_ack_that_is_not_sent_has_its_receipt_at_once() -> None:
    owner = consumer(receipts=True)
    await owner.acks.acknowledge(messages(1, 2)[0])


@pytest.mark.row("S4.14")
async def test_closing_sends_what_is_gathered_and_waits_for_its_receipt() -> None:
    owner = consumer(receipts=True)
    acked = asyncio.ensure_future(_wait(owner, 1))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(owner.acks.close(5))
    await asyncio.sleep(0)
    assert owner.said() == [("ack", 1)]
    assert not closing.done()
    assert owner.link is not None
    owner.link.answers[0].set_result(None)
    await closing
    await acked
    await owner.acks.close(5)
    assert owner.timers.running == 0
    for call in (owner.acks.acknowledge, owner.acks.negative_acknowledge):
        with pytest.raises(AlreadyClosed):
            call(message(2))


@pytest.mark.row("S4.15")
async def test_acks_without_a_link_are_kept_until_there_is_one() -> None:
    owner = consumer(receipts=True, is_shared=False)
    owner.link = None
    acked = asyncio.ensure_future(_wait(owner, 2))
    await asyncio.sleep(0)
    owner.acks.acknowledge(message(4))
    owner.timers.advance(1000)
    owner.link = FakeLink()
    owner.acks.attached()
    assert owner.said() == [("ack", 2, 4)]
    owner.link.answers[0].set_result(None)
    await acked
    owner.link = None
    lost = asyncio.ensure_future(_wait(owner, 5))
    await asyncio.sleep(0)
    await owner.acks.close(5)
    with pytest.raises(AlreadyClosed):
        await lost


@pytest.mark.row("S4.15")
def test_many_acks_that_waited_are_sent_in_commands_of_a_thousand() -> None:
    owner = consumer()
    owner.link = None
    for entry_id in range(2300):
        owner.acks.acknowledge(message(entry_id))
    owner.link = FakeLink()
    owner.acks.attached()
    assert [len(said) - 1 for said in owner.said()] == [1000, 1000, 300]


@pytest.mark.row("S4.14")
def test_what_was_acked_meanwhile_is_recognised() -> None:
    owner = consumer(batch_index_acks=True)
    batch = messages(2, 3)
    owner.acks.acknowledge(message(1))
    owner.acks.acknowledge(batch[1])
    assert owner.acks.delivered(1, 1, 0, None) == -1
    assert owner.acks.delivered(1, 2, 3, None) == 0b010
    assert [owner.acks.is_duplicate(1, 2, index) for index in range(3)] == [False, True, False]
    assert owner.acks.unacked_messages(1, 2, 3) == 0b101
    assert owner.acks.delivered(1, 3, 0, None) == 0
    assert owner.acks.unacked_messages(1, 1, 0) == 0


def test_after_a_seek_acks_of_before_are_not_sent() -> None:
    owner = consumer(ack_timeout_ms=1000)
    owner.acks.acknowledge(message(1))
    owner.acks.negative_acknowledge(message(2))
    take(owner, 3)
    owner.acks.sought()
    owner.timers.advance(120_000)
    assert owner.said() == []


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
def test_2500_negative_acks_are_three_commands() -> None:
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
    owner.timers.advance(43)  # the group is 43 ms old
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
def test_a_negative_ack_of_what_is_acked_afterwards_is_forgotten() -> None:
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
def test_what_nobody_took_does_not_time_out() -> None:
    owner = consumer(ack_timeout_ms=1000)
    for entry_id in range(1000):
        owner.acks.delivered(1, entry_id, 0, None)
    owner.timers.advance(60_000)
    assert owner.said() == []


@pytest.mark.row("S4.22")
@pytest.mark.parametrize("how", ["ack", "cumulative", "nack", "all again", "reconnect", "seek", "close"])
async def test_what_ends_the_ack_timeout(how: str) -> None:
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
def test_without_a_timeout_nothing_is_asked_for_ever() -> None:
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
    """Takes entries out of redeliveries."""

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
def test_when_all_that_is_due_became_a_letter_nothing_is_asked_for(is_shared: bool) -> None:
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
def test_who_leaves_failures_to_the_timeout_is_told_once(
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
    assert [("negative_acknowledge" in text) for text in caplog.messages] == ([] if has_nacked else [True])
