"""The highest sequence id of a producer is PostgreSQL's highest bigint. A send beyond it is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from broker.core.client_identity import ClientIdentity
from broker.core.entry import FLAG_BATCH
from broker.core.errors import BrokerError, NotAllowed
from broker.core.topic_name import TopicName
from broker.log.sends import SendRequest
from broker.producers.producer import Producer
from broker.producers.requests import ProducerRequest

if TYPE_CHECKING:
    from broker.producers.producer import ProducerTopic
    from broker.producers.requests import ProducerSink

TOPIC = TopicName.parse("t")
LAST = 2**63 - 1


class _World:
    """A topic and a sink that note the producer's calls."""

    def __init__(self) -> None:
        self.appended: list[int] = []
        self.refused: list[tuple[int, BrokerError]] = []
        self.unanswered_bytes = 0
        topic = SimpleNamespace(
            name=TOPIC,
            publishes=SimpleNamespace(add=self._add),
            append=lambda producer, request: self.appended.append(request.sequence_id),
            producer_refused=lambda: None,
        )
        sink = SimpleNamespace(
            on_send_failed=lambda request, error: self.refused.append((request.sequence_id, error))
        )
        self.producer = Producer(
            key=1,
            topic=cast("ProducerTopic", topic),
            name="p",
            request=ProducerRequest(topic=TOPIC, name="p"),
            identity=ClientIdentity(address="a", client_version="", face="websocket"),
            sink=cast("ProducerSink", sink),
            now_ms=0,
        )
        self.producer.admitted(None)

    def _add(self, producer: Any, size_bytes: int) -> None:
        self.unanswered_bytes += size_bytes


def send(first: int, last: int = 0) -> SendRequest:
    return SendRequest(first, last, 1, FLAG_BATCH if last else 0, 0, None, b"data")


def test_the_last_sequence_id_is_sent() -> None:
    world = _World()
    world.producer.send(send(LAST))
    world.producer.send(send(LAST - 1, LAST))
    assert (world.appended, world.refused) == ([LAST, LAST - 1], [])


@pytest.mark.parametrize("request_", [send(LAST + 1), send(LAST, LAST + 1)], ids=["alone", "batch"])
def test_a_send_beyond_the_last_sequence_id_is_refused_and_not_counted(request_: SendRequest) -> None:
    world = _World()
    world.producer.send(request_)
    ((sequence_id, error),) = world.refused
    assert (world.appended, world.unanswered_bytes, sequence_id) == ([], 0, request_.sequence_id)
    assert isinstance(error, NotAllowed)
    assert "last sequence id" in str(error)
    assert world.producer.last_error == f"NotAllowedError: {error}"
