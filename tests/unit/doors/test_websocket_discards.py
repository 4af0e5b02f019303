"""What happens to entries that the JSON WebSocket API cannot deliver, and to their permits, on every socket."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest

from broker.core.entry import FLAG_BATCH
from broker.doors.websocket.application import websocket_application
from broker.log.sends import SendRequest
from tests.unit.doors.fake_broker import FakeBroker, FakeConsumer, FakeTopic
from tests.unit.doors.socket_peer import Peer
from vela.wire.checksum import with_checksum
from vela.wire.compression import Compression
from vela.wire.entry import OutgoingMessage, encode_batch, encode_single
from vela.wire.pb.vela_pulsar_pb2 import MessageMetadata

TARGET = "/ws/v2/consumer/persistent/public/default/orders/s?subscriptionInitialPosition=Earliest"


@pytest.fixture
async def broker() -> FakeBroker:
    return FakeBroker()


def raw(metadata: MessageMetadata | bytes, payload: bytes) -> bytes:
    """Return an entry with this metadata, right or wrong, and a correct checksum."""
    head = metadata if isinstance(metadata, bytes) else metadata.SerializeToString()
    return with_checksum(len(head).to_bytes(4, "big") + head + payload)


def metadata(**fields: object) -> MessageMetadata:
    return MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **fields)  # type: ignore[arg-type]


def batch(count: int, compression: Compression = Compression.NONE) -> bytes:
    return encode_batch(
        [OutgoingMessage(payload=b"%d" % number) for number in range(count)],
        producer_name="p",
        sequence_id=0,
        publish_time_ms=1,
        compression=compression,
    )


def encrypted(messages: int = 1) -> bytes:
    made = metadata(encryption_algo="AES", encryption_param=b"iv", uncompressed_size=9)
    made.compression = Compression.LZ4
    key = made.encryption_keys.add(key="k", value=b"secret")
    key.metadata.add(key="v", value="1")
    if messages > 1:
        made.num_messages_in_batch = messages
    made.properties.add(key="a", value="b")
    return raw(made, b"cipher")


def store(broker: FakeBroker, data: bytes, messages: int = 1) -> FakeTopic:
    topic = broker.topic("orders")
    flags = FLAG_BATCH if messages > 1 else 0
    topic.append(SendRequest(len(topic.entries), 0, messages, flags, 0, None, data))
    return topic


def store_good(broker: FakeBroker, payload: bytes = b"good") -> None:
    store(broker, encode_single(producer_name="p", sequence_id=9, publish_time_ms=1, payload=payload))


async def connect(broker: FakeBroker, query: str = "") -> Peer:
    return await Peer(websocket_application(broker), TARGET + query).opened()


def consumer_of(broker: FakeBroker) -> FakeConsumer:
    return broker.topic("orders").subscriptions["s"].consumers[0]


def payloads(peer: Peer) -> list[bytes]:
    return [base64.b64decode(push["payload"]) for push in peer.heard()]


def flipped(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 0xFF
    return bytes(changed)


@pytest.mark.row("S0.16")
@pytest.mark.parametrize("messages", [1, 3])
async def test_an_encrypted_entry_follows_the_failure_action(broker: FakeBroker, messages: int) -> None:
    topic = store(broker, encrypted(messages), messages)
    store_good(broker)
    peer = await connect(broker, "&receiverQueueSize=5")
    assert payloads(peer) == [b"good"]
    consumer = consumer_of(broker)
    assert (consumer.validation_errors, consumer.permits, consumer.pending) == ([], 4, {0, 1})
    await peer.leave()

    peer = await connect(broker, "&receiverQueueSize=5&cryptoFailureAction=CONSUME")
    push, _ = peer.heard()
    assert base64.b64decode(push["payload"]) == b"cipher"
    assert push["properties"] == {"a": "b"}
    context = push["encryptionContext"]
    assert context.pop("batchSize", 1) == messages
    assert context == {
        "keys": {"k": {"keyValue": base64.b64encode(b"secret").decode(), "metadata": {"v": "1"}}},
        "param": base64.b64encode(b"iv").decode(),
        "algorithm": "AES",
        "compressionType": "LZ4",
        "uncompressedMessageSize": 9,
        "encrypted": True,
    }
    assert consumer_of(broker).permits == 3
    await peer.leave()

    peer = await connect(broker, "&receiverQueueSize=5&cryptoFailureAction=DISCARD")
    assert payloads(peer) == [b"good"]
    assert consumer_of(broker).validation_errors == ["DECRYPTION_ERROR"]
    assert consumer_of(broker).permits == 4
    assert topic.subscriptions["s"].acked == {0}


async def test_an_encrypted_entry_that_cannot_be_passed_on_is_discarded(broker: FakeBroker) -> None:
    made = metadata(encryption_param=b"iv")
    made.encryption_keys.add(key="k", value=b"secret")
    made.properties.add(key="a", value="????")
    store(broker, raw(made.SerializeToString().replace(b"????", b"\xff\xfe\xff\xfe"), b"cipher"))
    store_good(broker)
    peer = await connect(broker, "&receiverQueueSize=5&cryptoFailureAction=CONSUME")
    assert payloads(peer) == [b"good"]
    assert consumer_of(broker).validation_errors == ["CHECKSUM_MISMATCH"]
    assert consumer_of(broker).permits == 4


@pytest.mark.row("S0.16")
async def test_one_ack_settles_an_entry_that_was_handed_over_encrypted(broker: FakeBroker) -> None:
    topic = store(broker, encrypted(3), 3)
    peer = await connect(broker, "&cryptoFailureAction=CONSUME")
    (push,) = peer.heard()
    await peer.tell({"messageId": push["messageId"]})
    assert topic.subscriptions["s"].acked == {0}


@pytest.mark.row("S0.18")
async def test_a_discarded_entry_is_acked_on_the_consumer_that_got_it_and_never_comes_again(
    broker: FakeBroker,
) -> None:
    topic = store(broker, flipped(batch(3), -1), 3)
    peers = [await connect(broker, "&subscriptionType=Shared") for _ in range(2)]
    consumers = topic.subscriptions["s"].consumers
    assert [each.validation_errors for each in consumers] == [["CHECKSUM_MISMATCH"], []]
    assert topic.subscriptions["s"].acked == {0}
    for peer in peers:
        await peer.leave()
    again = await connect(broker)
    assert again.heard() == []
    assert consumer_of(broker).validation_errors == []


@pytest.mark.row("S0.19")
@pytest.mark.parametrize("make", [lambda: flipped(batch(10), -1), lambda: batch(10, Compression.LZ4)[:-3]])
async def test_discarded_batches_restore_exactly_their_permits(
    broker: FakeBroker, make: Callable[[], bytes]
) -> None:
    for _ in range(100):
        store(broker, make(), 10)
    store_good(broker)
    peer = await connect(broker, "&receiverQueueSize=100")
    assert payloads(peer) == [b"good"]
    consumer = consumer_of(broker)
    assert len(consumer.validation_errors) == 100
    assert (consumer.permits, consumer.granted) == (99, 100 + 100 * 10)
