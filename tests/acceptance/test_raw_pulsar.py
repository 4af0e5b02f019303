"""What Pulsar's protocol asks of the broker, frame by frame, where Apache's Python client does not show it."""

from __future__ import annotations

import secrets
from urllib.parse import urlsplit

from tests.support.raw_pulsar import RawPulsar
from tests.support.vela import VelaProcess
from vela.wire.binary import commands
from vela.wire.binary.enums import ServerError
from vela.wire.binary.events import Schema

BYTES = Schema(name="Bytes", type=0, data=b"", properties={})


def new_topic() -> str:
    return f"raw-{secrets.token_hex(4)}"


def test_a_bytes_schema_has_an_empty_version_that_is_in_the_answer(shared_vela: VelaProcess) -> None:
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
