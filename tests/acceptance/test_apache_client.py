"""Apache's own client, unmodified, against a whole Vela over TCP."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator

import pulsar
import pytest

from tests.support.raw_pulsar import RawPulsar
from tests.support.vela import VelaProcess
from vela.wire.binary import commands
from vela.wire.binary.enums import SubType
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand

RECEIVE_MS = 20_000
QUIET_MS = 1_500
CALLBACK_S = 20
QUEUE = 10


@pytest.fixture
def client(shared_vela: VelaProcess) -> Iterator[pulsar.Client]:
    client = pulsar.Client(shared_vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    client.close()


def topic_of(request: pytest.FixtureRequest) -> str:
    return f"apache-{abs(hash(request.node.name)):x}"


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return topic_of(request)


def receive(consumer: pulsar.Consumer, count: int) -> list[pulsar.Message]:
    return [consumer.receive(RECEIVE_MS) for _ in range(count)]


def drained(consumer: pulsar.Consumer) -> list[pulsar.Message]:
    """Receive until nothing has arrived for a moment."""
    messages = []
    with contextlib.suppress(pulsar.Timeout):
        while True:
            messages.append(consumer.receive(QUIET_MS))
    return messages


def assert_silent(consumer: pulsar.Consumer) -> None:
    with pytest.raises(pulsar.Timeout):
        consumer.receive(QUIET_MS)


def publish(producer: pulsar.Producer, payloads: list[bytes]) -> None:
    results: queue.Queue[pulsar.Result] = queue.Queue()
    for payload in payloads:
        producer.send_async(payload, lambda result, _: results.put(result))
    producer.flush()
    # flush() can return while another thread of the client still calls the callbacks of the last batch.
    assert [results.get(timeout=CALLBACK_S) for _ in payloads] == [pulsar.Result.Ok] * len(payloads)


@pytest.fixture(scope="module", autouse=True)
def forgetful(shared_vela: VelaProcess) -> Iterator[pulsar.Consumer]:
    """A consumer that has not acked a message. The shortest ack timeout, 10 s, passes while the first tests run."""
    client = pulsar.Client(shared_vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    consumer = client.subscribe(
        "apache-forgetful", "s", consumer_type=pulsar.ConsumerType.Shared, unacked_messages_timeout_ms=10_000
    )
    publish(client.create_producer("apache-forgetful"), [b"slow"])
    assert consumer.receive(RECEIVE_MS).redelivery_count() == 0
    yield consumer
    client.close()


@pytest.mark.parametrize("compression", list(pulsar.CompressionType.__members__))
@pytest.mark.parametrize("batching", [True, False], ids=["batches", "single"])
def test_every_compression_returns_the_published_payload(
    client: pulsar.Client, topic: str, compression: str, batching: bool
) -> None:
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    producer = client.create_producer(
        topic,
        batching_enabled=batching,
        compression_type=pulsar.CompressionType.__members__[compression],
    )
    payloads = [b"%d " % number * (number % 50 + 1) for number in range(300)]
    publish(producer, payloads)
    assert [message.data() for message in receive(consumer, 300)] == payloads


def test_properties_keys_and_times_survive(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="mine")
    producer.send(b"x", properties={"a": "1", "ü": "ö"}, partition_key="k", event_timestamp=1_700_000_000_123)
    message = consumer.receive(RECEIVE_MS)
    assert message.properties() == {"a": "1", "ü": "ö"}
    assert message.partition_key() == "k"
    assert message.event_timestamp() == 1_700_000_000_123
    assert message.producer_name() == "mine"


def test_exclusive_refuses_a_second_consumer_and_takes_it_after_the_first(
    client: pulsar.Client, topic: str
) -> None:
    first = client.subscribe(topic, "s")
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s")
    first.close()
    client.subscribe(topic, "s").close()


def test_shared_spreads_messages_and_redelivers_those_of_a_consumer_that_leaves(
    client: pulsar.Client, topic: str
) -> None:
    consumers = [client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared) for _ in range(3)]
    producer = client.create_producer(topic)
    publish(producer, [b"%d" % number for number in range(90)])
    seen: dict[bytes, int] = {}
    # The round robin gives each consumer one or more entries a turn, depending on how many entries a commit has.
    first = [consumers[0].receive(RECEIVE_MS), *drained(consumers[0])]
    for message in first[: (len(first) + 1) // 2]:
        consumers[0].acknowledge(message)
        seen[message.data()] = 0
    consumers[0].close()
    until = time.monotonic() + RECEIVE_MS / 1000
    while len(seen) < 90 and time.monotonic() < until:
        for index in (1, 2):
            for message in drained(consumers[index]):
                assert message.data() not in seen, (
                    "an acked message, or one given to two consumers, was delivered again"
                )
                seen[message.data()] = index
                consumers[index].acknowledge(message)
    assert len(seen) == 90
    assert set(seen.values()) == {0, 1, 2}


def test_negative_ack_counts_redeliveries(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(
        topic, "s", consumer_type=pulsar.ConsumerType.Shared, negative_ack_redelivery_delay_ms=100
    )
    publish(client.create_producer(topic), [b"bad", b"good"])
    counts = []
    for _ in range(4):
        message = consumer.receive(RECEIVE_MS)
        if message.data() == b"good":
            consumer.acknowledge(message)
        else:
            counts.append(message.redelivery_count())
            consumer.negative_acknowledge(message)
    assert counts == [0, 1, 2]
    message = consumer.receive(RECEIVE_MS)
    assert message.redelivery_count() == 3
    consumer.acknowledge(message)
    assert_silent(consumer)


def test_batch_index_acks_outlive_the_consumer(client: pulsar.Client, topic: str) -> None:
    def subscribe() -> pulsar.Consumer:
        return client.subscribe(
            topic, "s", consumer_type=pulsar.ConsumerType.Shared, batch_index_ack_enabled=True
        )

    consumer = subscribe()
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=500)
    publish(producer, [b"%d" % number for number in range(10)])
    messages = receive(consumer, 10)
    assert len({message.message_id().entry_id() for message in messages}) == 1
    for message in messages[:3]:
        consumer.acknowledge(message)
    consumer.close()
    consumer = subscribe()
    assert [message.data() for message in receive(consumer, 7)] == [b"%d" % number for number in range(3, 10)]
    assert_silent(consumer)


def within(call: Callable[[], pulsar.Message], seconds: float = RECEIVE_MS / 1000) -> pulsar.Message:
    """Call in another thread, because the client allows no timeout without a queue."""
    answer: list[pulsar.Message] = []
    thread = threading.Thread(target=lambda: answer.append(call()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert answer, "no message came"
    return answer[0]


@pytest.mark.row("S2.4")
def test_without_a_queue_a_busy_consumer_has_one_message_and_others_get_the_rest(
    client: pulsar.Client, topic: str
) -> None:
    kind = pulsar.ConsumerType.Shared
    busy, free = (client.subscribe(topic, "s", consumer_type=kind, receiver_queue_size=0) for _ in range(2))
    publish(client.create_producer(topic, batching_enabled=False), [b"%d" % number for number in range(10)])
    held = within(busy.receive)
    rest = []
    for _ in range(9):
        message = within(free.receive)
        free.acknowledge(message)
        rest.append(message.data())
    assert sorted([held.data(), *rest]) == [b"%d" % number for number in range(10)]
    busy.close()  # only the message that this consumer held goes to the other consumer
    assert within(free.receive).data() == held.data()


@pytest.mark.row("S0.50")
@pytest.mark.parametrize("kind", ["Exclusive", "Failover", "KeyShared"])
def test_without_a_queue_messages_come_one_by_one_on_every_type(
    client: pulsar.Client, topic: str, kind: str
) -> None:
    consumer_type = pulsar.ConsumerType.__members__[kind]
    consumer = client.subscribe(topic, "s", consumer_type=consumer_type, receiver_queue_size=0)
    publish(client.create_producer(topic, batching_enabled=False), [b"%d" % number for number in range(5)])
    for number in range(5):
        message = within(consumer.receive)
        assert message.data() == b"%d" % number
        consumer.acknowledge(message)


def test_a_lower_priority_gets_entries_when_the_higher_one_has_no_permits(
    shared_vela: VelaProcess, client: pulsar.Client, topic: str
) -> None:
    """Apache's client always has the best priority level, 0, and no option to change it. `peer` has level 1."""
    with RawPulsar(shared_vela.pulsar_url) as peer:
        peer.subscribe(topic, priority=1)
        peer.tell(commands.flow(1, 100))
        best = client.subscribe(
            topic, "s", consumer_type=pulsar.ConsumerType.Shared, receiver_queue_size=QUEUE
        )
        publish(client.create_producer(topic, batching_enabled=False), [b"%d" % at for at in range(30)])
        sent = [peer.hear() for _ in range(30 - QUEUE)]
        assert {each.type for each in sent if each is not None} == {BaseCommand.MESSAGE}
        assert [message.data() for message in receive(best, QUEUE)] == [b"%d" % at for at in range(QUEUE)]


def test_the_best_priority_takes_over_a_failover_subscription(
    shared_vela: VelaProcess, client: pulsar.Client, topic: str
) -> None:
    with RawPulsar(shared_vela.pulsar_url) as peer:
        peer.subscribe(topic, type_=SubType.FAILOVER, priority=1)
        assert peer.active_change() is True
        best = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Failover, consumer_name="z")
        assert peer.active_change() is False
        publish(client.create_producer(topic), [b"%d" % number for number in range(20)])
        assert [message.data() for message in receive(best, 20)] == [b"%d" % number for number in range(20)]
        best.close()
        assert peer.active_change() is True


def test_cumulative_ack_and_redeliver_on_exclusive(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    publish(client.create_producer(topic), [b"%d" % number for number in range(10)])
    messages = receive(consumer, 10)
    consumer.acknowledge_cumulative(messages[4])
    consumer.redeliver_unacknowledged_messages()
    assert [message.data() for message in receive(consumer, 5)] == [b"%d" % number for number in range(5, 10)]


def test_a_seek_goes_to_an_id_to_a_time_and_to_both_ends(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", start_message_id_inclusive=True)
    producer = client.create_producer(topic)
    publish(producer, [b"%d" % number for number in range(50)])
    early = receive(consumer, 50)
    moment_ms = int(time.time() * 1000) + 1
    while int(time.time() * 1000) <= moment_ms:
        pass
    publish(producer, [b"%d" % number for number in range(50, 100)])
    receive(consumer, 50)
    consumer.seek(early[20].message_id())
    assert receive(consumer, 80)[0].data() == b"20"
    consumer.seek(moment_ms)
    assert [message.data() for message in receive(consumer, 50)] == [
        b"%d" % number for number in range(50, 100)
    ]
    consumer.seek(pulsar.MessageId.earliest)
    assert receive(consumer, 100)[0].data() == b"0"
    consumer.seek(pulsar.MessageId.latest)
    assert_silent(consumer)


def test_a_reader_reads_from_any_place_and_finds_the_end(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    ids = [producer.send(b"%d" % number) for number in range(10)]
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    seen = []
    while reader.has_message_available():
        seen.append(reader.read_next(RECEIVE_MS).data())
    assert seen == [b"%d" % number for number in range(10)]
    after = client.create_reader(topic, ids[6])
    assert after.read_next(RECEIVE_MS).data() == b"7"


def test_unsubscribe_forgets_the_cursor(client: pulsar.Client, topic: str) -> None:
    client.subscribe(topic, "s").unsubscribe()
    publish(client.create_producer(topic), [b"between"])
    consumer = client.subscribe(topic, "s")
    assert_silent(consumer)


def test_a_topic_made_with_partitions_by_a_command_is_used_on_all_of_them(
    shared_vela: VelaProcess, client: pulsar.Client, topic: str
) -> None:
    shared_vela.manage("createtopic", topic, "--partitions", "3")
    assert len(client.get_topic_partitions(topic)) == 3
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    producer = client.create_producer(
        topic, message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution
    )
    publish(producer, [b"%d" % number for number in range(30)])
    messages = receive(consumer, 30)
    assert {message.data() for message in messages} == {b"%d" % number for number in range(30)}
    assert len({message.topic_name() for message in messages}) == 3


def test_an_ack_timeout_redelivers_messages(forgetful: pulsar.Consumer) -> None:
    again = forgetful.receive(RECEIVE_MS)
    assert again.data() == b"slow"
    assert again.redelivery_count() == 1


def test_a_restart_in_between_loses_nothing_and_repeats_no_flushed_ack(
    shared_vela: VelaProcess, topic: str
) -> None:
    def subscribe() -> tuple[pulsar.Client, pulsar.Consumer]:
        client = pulsar.Client(shared_vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        kind = pulsar.ConsumerType.Shared
        return client, client.subscribe(topic, "s", consumer_type=kind, batch_index_ack_enabled=True)

    client, consumer = subscribe()
    publish(client.create_producer(topic, batching_enabled=True), [b"%d" % number for number in range(1000)])
    acked = receive(consumer, 400)
    for message in acked:
        consumer.acknowledge(message)
    consumer.close()
    client.close()
    assert shared_vela.stop() == 0
    shared_vela.start()
    client, consumer = subscribe()
    again = {message.data() for message in receive(consumer, 600)}
    assert again == {b"%d" % number for number in range(1000)} - {message.data() for message in acked}
    assert_silent(consumer)
    client.close()
