"""Long-poll pulls for tests, and messages to pull."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from broker.core.entry import FLAG_BATCH
from broker.core.topic_name import TopicName
from broker.log.sends import SendRequest
from broker.pulls.values import ParkedPull, PullAnswer, PullAsk
from tests.support.broker_harness import BrokerRun, ProducerProbe
from vela.wire.entry import OutgoingMessage, encode_batch, encode_single

TOPIC = TopicName.parse("t")
Matches = Callable[[Mapping[str, str]], bool]


def ask(
    offset: int,
    *,
    queue: int = 0,
    most: int = 32,
    matches: Matches | None = None,
    suspend: bool = True,
    park_ms: int = 15_000,
) -> PullAsk:
    return PullAsk(
        topic=TOPIC,
        queue=queue,
        offset=offset,
        max_messages=most,
        matches=matches,
        may_suspend=suspend,
        suspend_timeout_ms=park_ms,
    )


async def parked(run: BrokerRun, wanted: PullAsk) -> ParkedPull:
    found = await run.broker.pull(wanted)
    assert isinstance(found, ParkedPull)
    assert not found.answer.done()
    return found


async def result(waiting: ParkedPull) -> PullAnswer:
    return await asyncio.wait_for(waiting.answer, 8)


def send(producer: ProducerProbe, data: bytes, *, messages: int = 1, flags: int = 0) -> None:
    """Send these bytes as an entry."""
    assert producer.producer is not None
    flags |= FLAG_BATCH if messages > 1 else 0
    producer.producer.send(SendRequest(0, 0, messages, flags, 0, None, data))


async def publish(producer: ProducerProbe, *payloads: bytes, tag: str = "") -> None:
    """Publish each payload as a separate entry."""
    before = len(producer.receipts)
    for payload in payloads:
        send(
            producer,
            encode_single(
                producer_name="p",
                sequence_id=0,
                publish_time_ms=1,
                payload=payload,
                properties={"TAGS": tag} if tag else {},
            ),
        )
    await producer.has_receipts(before + len(payloads))


async def publish_batch(producer: ProducerProbe, *payloads: bytes) -> None:
    """Publish the payloads as one entry."""
    before = len(producer.receipts)
    data = encode_batch(
        [OutgoingMessage(payload=payload) for payload in payloads],
        producer_name="p",
        sequence_id=0,
        publish_time_ms=1,
    )
    send(producer, data, messages=len(payloads))
    await producer.has_receipts(before + 1)


def payloads(answer: PullAnswer) -> list[bytes]:
    return [each.message.payload for each in answer.messages]


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]
