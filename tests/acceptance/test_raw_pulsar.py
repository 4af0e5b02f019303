"""What Pulsar's protocol asks of the broker, frame by frame, where Apache's Python client does not show it."""

from __future__ import annotations

import secrets

from tests.support.raw_pulsar import RawPulsar
from tests.support.vela import VelaProcess
from vela.wire.binary import commands
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
