"""Topic epochs that clients claim over the wire: only an epoch that the broker gave is valid."""

from __future__ import annotations

import itertools

import psycopg
import pytest

from tests.support.raw_pulsar import RawPulsar
from tests.support.vela import VelaProcess
from vela.wire.binary import commands
from vela.wire.binary.enums import AccessMode, ServerError
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand

INVENTED = pytest.mark.parametrize("invented", [1, 2**62, 2**63 - 1, 2**63, 2**64 - 1])
_request_ids = itertools.count(100)
_topics = itertools.count()


@pytest.fixture
def topic() -> str:
    """A topic that no other test uses, on the shared Vela."""
    return f"persistent://public/default/epochs-{next(_topics)}"


def opening(topic: str, mode: AccessMode, claimed: int | None, producer_id: int) -> bytes:
    return commands.producer(
        topic,
        producer_id=producer_id,
        request_id=next(_request_ids),
        access_mode=mode,
        topic_epoch=claimed,
    )


def open_alone(
    peer: RawPulsar,
    topic: str,
    *,
    claimed: int | None = None,
    mode: AccessMode = AccessMode.EXCLUSIVE,
    producer_id: int = 1,
) -> BaseCommand:
    return peer.ask("PRODUCER_SUCCESS", opening(topic, mode, claimed, producer_id))


def close(peer: RawPulsar, producer_id: int = 1) -> None:
    peer.ask("SUCCESS", commands.close_producer(producer_id, request_id=next(_request_ids)))


def given(answer: BaseCommand) -> int:
    assert answer.producer_success.producer_ready
    return answer.producer_success.topic_epoch


def stored_epoch(vela: VelaProcess, topic: str) -> object:
    with psycopg.connect(vela.database_url) as connection:
        row = connection.execute("SELECT producer_epoch FROM vela_topic WHERE name = %s", (topic,)).fetchone()
        assert row is not None
        return row[0]


@INVENTED
def test_an_invented_epoch_of_a_fresh_topic_counts_as_none(
    shared_vela: VelaProcess, topic: str, invented: int
) -> None:
    with RawPulsar(shared_vela.pulsar_url) as peer:
        assert given(open_alone(peer, topic, claimed=invented)) == 0
        assert stored_epoch(shared_vela, topic) == 0
        close(peer)
        assert given(open_alone(peer, topic)) == 1


@pytest.mark.parametrize("mode", [AccessMode.EXCLUSIVE, AccessMode.EXCLUSIVE_WITH_FENCING])
@INVENTED
def test_an_invented_epoch_is_fenced_once_the_topic_has_one(
    shared_vela: VelaProcess, topic: str, mode: AccessMode, invented: int
) -> None:
    with RawPulsar(shared_vela.pulsar_url) as peer:
        open_alone(peer, topic)
        close(peer)
        refused = peer.ask("ERROR", opening(topic, mode, invented, 1))
        assert ServerError(refused.error.error) == ServerError.PRODUCER_FENCED
        assert stored_epoch(shared_vela, topic) == 0
        assert given(open_alone(peer, topic, claimed=0)) == 0


@pytest.mark.parametrize("claimed", [0, 5, 2**63 - 1, 2**64 - 1])
def test_a_producer_that_waited_gets_an_epoch_above_that_of_its_predecessor(
    shared_vela: VelaProcess, topic: str, claimed: int
) -> None:
    with RawPulsar(shared_vela.pulsar_url) as early, RawPulsar(shared_vela.pulsar_url) as late:
        open_alone(early, topic)
        close(early)
        assert given(open_alone(early, topic)) == 1
        queued = open_alone(late, topic, claimed=claimed, mode=AccessMode.WAIT_FOR_EXCLUSIVE)
        assert not queued.producer_success.producer_ready
        close(early)
        its_turn = late.hear()
        assert its_turn is not None
        assert given(its_turn) == 2
        assert stored_epoch(shared_vela, topic) == 2
