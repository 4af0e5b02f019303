"""Parts of Pulsar's protocol that Apache's Python client hides, tested frame by frame."""

from __future__ import annotations

import base64
import itertools
import json
import secrets
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from tests.support import entries
from tests.support.raw_pulsar import RawPulsar
from tests.support.vela import ADMIN_PASSWORD, VelaProcess
from tests.support.waiting import wait_until
from vela.wire.binary import commands
from vela.wire.binary.enums import ServerError, SubType
from vela.wire.binary.schema import Schema
from vela.wire.pb.vela_pulsar_pb2 import CommandConsumerStatsResponse, MessageIdData

BYTES = Schema(name="Bytes", type=0, data=b"", properties={})


def new_topic() -> str:
    return f"raw-{secrets.token_hex(4)}"


def read(vela: VelaProcess, path: str) -> dict[str, Any]:
    """Return the answer of /api/v1 for a path below a topic of public/default."""
    request = urllib.request.Request(f"{vela.console_url}/api/v1/topics/persistent/public/default/{path}")
    who = base64.b64encode(f"admin:{ADMIN_PASSWORD}".encode()).decode()
    request.add_header("Authorization", f"Basic {who}")
    with urllib.request.urlopen(request, timeout=20) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_consumer_stats_are_the_brokers_figures(shared_vela: VelaProcess) -> None:
    topic = new_topic()
    with RawPulsar(shared_vela.pulsar_url) as peer:
        peer.open_producer(topic)
        peer.subscribe(topic)
        sequence_ids = itertools.count()

        def send() -> None:
            sequence_id = next(sequence_ids)
            data = entries.single("p", sequence_id, b"12345")
            peer.ask("SEND_RECEIPT", b"".join(commands.send(1, sequence_id, data)))

        def receive() -> MessageIdData:
            return peer.ask("MESSAGE", commands.flow(1, 1)).message.message_id

        def stats() -> CommandConsumerStatsResponse:
            asked = commands.consumer_stats(1, request_id=8)
            return peer.ask("CONSUMER_STATS_RESPONSE", asked).consumerStatsResponse

        def rate_out() -> float:
            send()
            receive()
            return stats().msgRateOut

        for _ in range(4):
            send()
        first, *_ = [receive() for _ in range(3)]
        ack = commands.ack(1, [(first.ledgerId, first.entryId, None)], request_id=7)
        peer.ask("ACK_RESPONSE", ack)
        found = stats()
        assert (found.type, found.availablePermits) == ("Shared", 0)
        assert (found.unackedMessages, found.msgBacklog) == (2, 3)
        assert found.address == "/{}:{}".format(*peer.socket.getsockname())
        assert wait_until(rate_out, "a rate") > 0


def test_the_answer_about_a_bytes_schema_contains_its_empty_version(shared_vela: VelaProcess) -> None:
    topic = new_topic()
    with RawPulsar(shared_vela.pulsar_url) as peer:
        peer.open_producer(topic)
        asked = commands.get_or_create_schema(topic, request_id=5, schema=BYTES)
        answer = peer.ask("GET_OR_CREATE_SCHEMA_RESPONSE", asked).getOrCreateSchemaResponse
        assert not answer.HasField("error_code")
        assert answer.HasField("schema_version")  # Java's client fails without the field
        assert answer.schema_version == b""


def test_a_lookup_names_an_address_for_clients_with_tls(shared_vela: VelaProcess) -> None:
    with RawPulsar(shared_vela.pulsar_url) as peer:
        answer = peer.ask("LOOKUP_RESPONSE", commands.lookup(new_topic(), request_id=5)).lookupTopicResponse
    assert answer.brokerServiceUrl == shared_vela.pulsar_url
    assert answer.brokerServiceUrlTls == f"pulsar+ssl://{urlsplit(shared_vela.pulsar_url).netloc}"
    assert answer.proxy_through_service_url


def test_a_lookup_through_an_unknown_listener_is_refused(shared_vela: VelaProcess) -> None:
    with RawPulsar(shared_vela.pulsar_url) as peer:
        asked = commands.lookup(new_topic(), request_id=5, listener_name="external")
        answer = peer.ask("LOOKUP_RESPONSE", asked).lookupTopicResponse
    assert ServerError(answer.error) == ServerError.SERVICE_NOT_READY
    assert "external" in answer.message
    assert "listener" in answer.message


def test_the_properties_of_producers_and_consumers_can_be_read(shared_vela: VelaProcess) -> None:
    topic = new_topic()
    with RawPulsar(shared_vela.pulsar_url) as peer:
        opened = commands.producer(
            topic, producer_id=1, request_id=1, properties={"app": "shop", "nul\0": "x" * 300}
        )
        peer.ask("PRODUCER_SUCCESS", opened)
        subscribed = commands.subscribe(
            topic, "s", type=SubType.SHARED, consumer_id=1, request_id=2, properties={"host": "a1"}
        )
        peer.ask("SUCCESS", subscribed)
        (producer,) = wait_until(lambda: read(shared_vela, topic)["producing"], "the producer's row")
        (consumer,) = wait_until(
            lambda: read(shared_vela, f"{topic}/subscriptions/s")["connected"], "the consumer's row"
        )
    assert producer["properties"] == {"app": "shop", "nul": "x" * 200}
    assert consumer["properties"] == {"host": "a1"}
