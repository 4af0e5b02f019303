"""Server engines for tests, and the frame of every command with its event."""

from __future__ import annotations

from broker.doors.binary.wire import events
from broker.doors.binary.wire.engine import ServerEngine
from tests.support.raw_pulsar import watch_topic_list, watch_topic_list_close
from vela.wire.binary import commands
from vela.wire.binary.enums import AccessMode, InitialPosition, SubType, TopicsMode
from vela.wire.binary.frames import simple_frame
from vela.wire.message_id import EARLIEST, LATEST
from vela.wire.pb import vela_pulsar_pb2 as pb

MAX_MESSAGE_BYTES = 1_000_000


def new_engine() -> ServerEngine:
    return ServerEngine(server_version="Vela test", max_message_bytes=MAX_MESSAGE_BYTES)


def connected_engine(*, version: int = 21, client: str = "Pulsar-CPP-v3.7") -> ServerEngine:
    engine = new_engine()
    engine.receive(commands.connect(client_version=client, protocol_version=version))
    engine.send_connected()
    engine.data_to_send()
    return engine


def frame(command: pb.BaseCommand) -> bytes:
    return simple_frame(command.SerializePartialToString())


EVERY_EVENT: list[tuple[bytes, events.Event]] = [
    (commands.ping(), events.Ping()),
    (commands.pong(), events.Pong()),
    (
        commands.partition_metadata("persistent://a/b/c", request_id=1, create=False),
        events.PartitionMetadata(topic="persistent://a/b/c", request_id=1, create=False),
    ),
    (
        commands.lookup("t", request_id=2, authoritative=True),
        events.Lookup(topic="t", request_id=2, authoritative=True, listener_name=None),
    ),
    (
        commands.get_topics_of_namespace("a/b", request_id=3, mode=TopicsMode.ALL),
        events.GetTopicsOfNamespace(
            request_id=3, namespace="a/b", mode=TopicsMode.ALL, pattern=None, topics_hash=None
        ),
    ),
    (
        watch_topic_list("a/b", "a/b/.*", watcher_id=2, request_id=3, known_hash="ab"),
        events.WatchTopicList(
            request_id=3, watcher_id=2, namespace="a/b", pattern="a/b/.*", topics_hash="ab"
        ),
    ),
    (
        watch_topic_list_close(2, request_id=3),
        events.CloseTopicWatcher(request_id=3, watcher_id=2),
    ),
    (
        commands.producer(
            "t",
            producer_id=4,
            request_id=5,
            name="p",
            epoch=6,
            access_mode=AccessMode.EXCLUSIVE,
            user_provided_name=False,
            properties={"ключ": "v"},
            initial_subscription="s",
        ),
        events.OpenProducer(
            topic="t",
            producer_id=4,
            request_id=5,
            producer_name="p",
            user_provided_name=False,
            encrypted=False,
            properties={"ключ": "v"},
            schema=None,
            epoch=6,
            access_mode=AccessMode.EXCLUSIVE,
            topic_epoch=None,
            initial_subscription="s",
            in_transaction=False,
        ),
    ),
    (
        b"".join(commands.send(4, -1, b"entry", messages=3, highest_sequence_id=9, is_chunk=True)),
        events.Send(4, -1, 9, 3, True, False, b"entry"),
    ),
    (b"".join(commands.send(4, 8, b"entry")), events.Send(4, 8, None, 1, False, False, b"entry")),
    (commands.close_producer(4, request_id=7), events.CloseProducer(producer_id=4, request_id=7)),
    (
        commands.subscribe(
            "t",
            "s",
            type=SubType.KEY_SHARED,
            consumer_id=8,
            request_id=9,
            priority=2,
            durable=False,
            start=EARLIEST,
            initial_position=InitialPosition.EARLIEST,
            create_topic=False,
            properties={"a": "b"},
        ),
        events.Subscribe(
            topic="t",
            subscription="s",
            type=SubType.KEY_SHARED,
            consumer_id=8,
            request_id=9,
            consumer_name="",
            priority=2,
            durable=False,
            start=EARLIEST,
            start_ack_set=None,
            initial_position=InitialPosition.EARLIEST,
            rollback_s=0,
            create_topic=False,
            read_compacted=False,
            replicate_state=False,
            properties={"a": "b"},
            subscription_properties={},
            schema=None,
            key_shared_sticky=False,
            key_shared_ranges=[],
            key_shared_out_of_order=False,
            epoch=None,
        ),
    ),
    (commands.flow(8, 1000), events.Flow(8, 1000)),
    (
        commands.ack(8, [(1, 2, None), (1, 3, 0), (1, 4, 2**70), (-1, -1, None)], request_id=11),
        events.Ack(
            8,
            False,
            [
                events.AckId(1, 2, None),
                events.AckId(1, 3, 0),
                events.AckId(1, 4, 2**70),
                events.AckId(-1, -1, None),
            ],
            None,
            11,
            False,
        ),
    ),
    (
        commands.ack(8, [(1, 2, None)], cumulative=True),
        events.Ack(8, True, [events.AckId(1, 2, None)], None, None, False),
    ),
    (commands.redeliver(8), events.Redeliver(8, [], None)),
    (commands.redeliver(8, [(1, 2), (3, 4)]), events.Redeliver(8, [(1, 2), (3, 4)], None)),
    (
        commands.unsubscribe(8, request_id=12, force=True),
        events.Unsubscribe(consumer_id=8, request_id=12, force=True),
    ),
    (
        commands.seek(8, request_id=13, message_id=LATEST),
        events.Seek(consumer_id=8, request_id=13, message_id=LATEST, ack_set=None, publish_time_ms=None),
    ),
    (
        commands.seek(8, request_id=14, publish_time_ms=5),
        events.Seek(consumer_id=8, request_id=14, message_id=None, ack_set=None, publish_time_ms=5),
    ),
    (commands.close_consumer(8, request_id=15), events.CloseConsumer(consumer_id=8, request_id=15)),
    (commands.get_last_message_id(8, request_id=16), events.GetLastMessageId(consumer_id=8, request_id=16)),
    (commands.consumer_stats(8, request_id=17), events.ConsumerStats(consumer_id=8, request_id=17)),
]
