"""What a consumer sends for its acks, and when."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.client.ack_link import (
    FakeConsumer,
    FakeLink,
    chunked_message,
    consumer,
    message,
    messages,
    take,
)
from vela.errors import (
    AlreadyClosed,
    CumulativeAcknowledgementNotAllowedError,
    NotConnected,
    OperationNotSupported,
    ReadError,
)
from vela.message import MessageId
from vela.wire.binary.enums import ValidationError


# -- acks ----------------------------------------------------------------------------------------------------------
@pytest.mark.row("S4.9")
def test_acks_within_100_ms_are_sent_as_one_command() -> None:
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


@pytest.mark.parametrize(
    "wrong",
    [
        [MessageId.latest],
        [MessageId(-1, 1, 2, 4, batch_size=3)],
        [MessageId(-1, 1, 2, 0, batch_size=3), MessageId(-1, 1, 2, 4, batch_size=5)],
    ],
)
def test_a_list_with_a_wrong_id_acks_nothing(wrong: list[MessageId]) -> None:
    owner = consumer(is_shared=False)
    with pytest.raises(OperationNotSupported):
        owner.acks.acknowledge([message(1), *wrong])
    with pytest.raises(OperationNotSupported):
        owner.acks.acknowledge([message(1), *wrong], {"at": 7})
    owner.acks.flush()
    assert owner.said() == []
    owner.acks.acknowledge([message(1), message(3)])
    owner.timers.advance(100)
    assert owner.said() == [("ack", 1, 3)]


@pytest.mark.row("S4.9")
def test_a_thousand_acks_are_sent_at_once() -> None:
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


def test_a_stored_message_id_can_be_acknowledged_too() -> None:
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


def test_an_expired_chunked_message_is_redelivered_whole_unless_it_is_acked() -> None:
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


def test_an_impossible_id_is_refused() -> None:
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


def test_a_damaged_entry_is_acked_at_once_with_the_reason() -> None:
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
async def test_with_receipts_an_ack_ends_when_the_broker_says_so() -> None:
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
async def test_the_acks_of_a_group_share_a_receipt_and_cancelling_one_leaves_the_others() -> None:
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
async def test_closing_sends_the_collected_acks_and_waits_for_their_receipt() -> None:
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
def test_a_message_acked_meanwhile_is_recognised() -> None:
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


def test_acks_from_before_a_seek_are_not_sent() -> None:
    owner = consumer(ack_timeout_ms=1000)
    owner.acks.acknowledge(message(1))
    owner.acks.negative_acknowledge(message(2))
    take(owner, 3)
    owner.acks.sought()
    owner.timers.advance(120_000)
    assert owner.said() == []
