"""The same examples, run with `import pulsar` and with `import vela`, give the same results."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pulsar
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

import vela
from tests.acceptance.client.both import acknowledging, consuming, positions, publishing, refusals, schemas
from tests.acceptance.client.both.place import EXAMPLES, Place
from tests.acceptance.client.both.publishing import received
from tests.support.vela import VelaProcess

_MODULES_OF_EXAMPLES = (acknowledging, consuming, positions, publishing, refusals, schemas)
BOTH = [pytest.param(pulsar, id="pulsar"), pytest.param(vela, id="vela")]
ACROSS = [pytest.param(pulsar, vela, id="pulsar-vela"), pytest.param(vela, pulsar, id="vela-pulsar")]


@pytest.fixture(scope="session")
def key_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A public and a private key."""
    folder: Path = tmp_path_factory.mktemp("keys")
    key = rsa.generate_private_key(65537, 2048)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (folder / "public.pem").write_bytes(public)
    (folder / "private.pem").write_bytes(private)
    return str(folder / "public.pem"), str(folder / "private.pem")


@pytest.fixture
def place(shared_vela: VelaProcess, key_files: tuple[str, str]) -> Place:
    """The place of the examples. Both clients use TCP here; other tests cover Vela's client over WebSocket."""
    url = shared_vela.pulsar_url
    return Place(
        vela=shared_vela,
        public_key=key_files[0],
        private_key=key_files[1],
        urls={"pulsar": url, "vela": url},
    )


@pytest.mark.parametrize("api", BOTH)
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_has_the_same_result(api: ModuleType, name: str, place: Place) -> None:
    function, expected = EXAMPLES[name]
    assert function(api, place) == expected


def _exchange(
    writer: ModuleType,
    reader: ModuleType,
    place: Place,
    contents: list[Any],
    send: dict[str, Any],
    **options: Any,
) -> list[tuple[Any, Any]]:
    """Publish with each client and read with the other."""
    topic = place.topic()
    sending, receiving = writer.Client(place.url(writer)), reader.Client(place.url(reader))
    schemas_of = options.pop("schemas", {})
    consumer = receiving.subscribe(
        topic,
        "s",
        crypto_key_reader=place.keys(reader),
        **({"schema": schemas_of[reader]} if schemas_of else {}),
    )
    producer = sending.create_producer(
        topic, **options, **({"schema": schemas_of[writer]} if schemas_of else {})
    )
    for content in contents:
        producer.send_async(content, lambda result, message_id: None, **send)
    producer.flush()
    messages = received(consumer, len(contents))
    # Decode before the close, because Apache's client asks the broker for the schema here.
    values = [message.value() for message in messages]
    sending.close()
    receiving.close()
    return list(zip(messages, values, strict=True))


@pytest.mark.parametrize(("writer", "reader"), ACROSS)
@pytest.mark.parametrize("codec", ["NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY"])
def test_encrypted_compressed_batches_are_read_by_the_other_client(
    writer: ModuleType, reader: ModuleType, codec: str, place: Place
) -> None:
    contents = [b"%d compressible compressible compressible" % number for number in range(20)]
    exchanged = _exchange(
        writer,
        reader,
        place,
        contents,
        {"properties": {"a": "1"}, "partition_key": "key", "ordering_key": "order"},
        batching_enabled=True,
        batching_max_publish_delay_ms=200,
        compression_type=getattr(writer.CompressionType, codec),
        encryption_key="key",
        crypto_key_reader=place.keys(writer),
    )
    messages = [message for message, _ in exchanged]
    assert [message.data() for message in messages] == contents
    assert [message.message_id().batch_index() for message in messages] == list(range(20))
    last = messages[-1]
    assert (last.properties(), last.partition_key(), last.ordering_key()) == ({"a": "1"}, "key", "order")
    assert last.encryption_context().compression_type().name == codec
    assert last.encryption_context().batch_size() == 20


@pytest.mark.parametrize(("writer", "reader"), ACROSS)
def test_encrypted_chunks_are_read_by_the_other_client(
    writer: ModuleType, reader: ModuleType, place: Place
) -> None:
    content = bytes(range(256)) * (12 * 4096)
    options = {"encryption_key": "key", "crypto_key_reader": place.keys(writer)}
    ((message, _),) = _exchange(writer, reader, place, [content], {}, chunking_enabled=True, **options)
    assert message.data() == content


@pytest.mark.parametrize(("writer", "reader"), ACROSS)
@pytest.mark.parametrize("schema", ["StringSchema", "JsonSchema", "AvroSchema"])
def test_schemas_are_read_by_the_other_client(
    writer: ModuleType, reader: ModuleType, schema: str, place: Place
) -> None:
    if schema == "StringSchema":
        both = {api: api.schema.StringSchema() for api in (writer, reader)}
        ((_, value),) = _exchange(writer, reader, place, ["grün"], {}, schemas=both)
        assert value == "grün"
        return
    lamp = schemas.lamp(writer)
    classes = {writer: type(lamp), reader: schemas.lamp_class(reader)}
    both = {api: getattr(api.schema, schema)(record) for api, record in classes.items()}
    ((_, value),) = _exchange(writer, reader, place, [lamp], {}, schemas=both)
    assert schemas.lamp_text(value) == schemas.LAMP


@pytest.mark.parametrize("schema", ["StringSchema", "JsonSchema", "AvroSchema"])
def test_both_clients_have_one_version_of_a_schema(schema: str, place: Place) -> None:
    topic = place.topic()
    versions = set()
    reading = vela.Client(place.url(vela))
    consumer = reading.subscribe(topic, "s")
    for api in (pulsar, vela, pulsar):
        client = api.Client(place.url(api))
        record = () if schema == "StringSchema" else (schemas.lamp_class(api),)
        made = getattr(api.schema, schema)(*record)
        client.create_producer(topic, schema=made).send(_value(record))
        client.close()
        versions.add(consumer.receive(20_000).schema_version())
    reading.close()
    assert len(versions) == 1
    assert versions != {b""}


def _value(record: tuple[Any, ...]) -> Any:
    return record[0](name="x", color=schemas.Color.RED) if record else "x"


def test_keys_lead_both_clients_to_the_same_partition(place: Place) -> None:
    topic = place.topic(partitions=5)
    found = []
    for api in (pulsar, vela):
        client = api.Client(place.url(api))
        producer = client.create_producer(topic)
        ids = [producer.send(b"x", partition_key=f"key-{number}") for number in range(50)]
        found.append([message_id.partition() for message_id in ids])
        client.close()
    assert found[0] == found[1]
    assert set(found[0]) == {0, 1, 2, 3, 4}
