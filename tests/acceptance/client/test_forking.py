"""A client in a forked child is harmless, and the parent's client continues to work."""

from __future__ import annotations

import os
from collections.abc import Callable

import vela

WAIT_MS = 20_000


def outcome(call: Callable[[], object]) -> str:
    """Return the result of a call, or the class of its error and whether its text mentions the fork."""
    try:
        return repr(call())
    except Exception as error:
        return f"{type(error).__name__}{' forked' if 'forked process' in str(error) else ''}"


def in_a_child(*calls: Callable[[], object]) -> list[str]:
    """Return the outcomes of these calls in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, "\n".join(outcome(call) for call in calls).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said.split("\n")


REFUSED = "AlreadyClosed forked"


def test_in_a_forked_child_closing_is_quiet_and_all_else_is_refused(service_url: str, topic: str) -> None:
    with vela.Client(service_url) as client:
        producer = client.create_producer(topic, block_if_queue_full=True, max_pending_messages=1)
        consumer = client.subscribe(topic, "s")
        reader = client.create_reader(topic, vela.MessageId.earliest)
        view = client.create_table_view(topic)
        for number in range(4):
            producer.send(b"%d" % number, partition_key="key")
        first = consumer.receive(WAIT_MS)  # this call prefetches the other messages
        assert reader.read_next(WAIT_MS).data() == b"0"
        iteration = iter(consumer)

        refused = [
            lambda: consumer.receive(0),
            lambda: next(iteration),
            lambda: consumer.receive_async(lambda result, message: None),
            consumer.batch_receive,
            lambda: consumer.acknowledge(first),
            lambda: consumer.acknowledge_cumulative(first),
            lambda: consumer.negative_acknowledge(first),
            lambda: consumer.seek(vela.MessageId.earliest),
            consumer.pause,
            consumer.statistics,
            consumer.unsubscribe,
            lambda: reader.read_next(0),
            lambda: next(iter(reader)),
            reader.has_message_available,
            lambda: reader.seek(0),
            lambda: producer.send(b"x"),
            lambda: producer.send_async(b"x", lambda result, message_id: None),
            # In the parent, this call would wait for room in the queue.
            lambda: producer.send_async(b"x", lambda result, message_id: None),
            producer.flush,
            lambda: view.for_each(print),
            lambda: list(view),
            lambda: client.create_producer(topic),
            lambda: client.subscribe(topic, "other"),
            lambda: client.get_topic_partitions(topic),
        ]
        assert in_a_child(*refused) == [REFUSED] * len(refused)

        made: list[vela.Consumer | vela.Producer | vela.Reader | vela.TableView] = [
            consumer,
            producer,
            reader,
            view,
        ]
        connected = [each.is_connected for each in made if not isinstance(each, vela.TableView)]
        closing = [each.close for each in made]
        quiet = in_a_child(*connected, *closing, client.close, client.close, client.shutdown, *connected)
        assert quiet == ["False"] * 3 + ["None"] * 7 + ["False"] * 3
        assert in_a_child(lambda: (consumer.subscription_name(), first.data())) == ["('s', b'0')"]

        assert [each() for each in connected] == [True] * 3
        producer.send(b"4")
        assert [consumer.receive(WAIT_MS).data() for _ in range(4)] == [b"1", b"2", b"3", b"4"]
        assert reader.read_next(WAIT_MS).data() == b"1"


def test_a_forked_child_creates_its_own_client(service_url: str, topic: str) -> None:
    def publish() -> object:
        with vela.Client(service_url) as own:
            own.create_producer(topic).send(b"from the child")
        return "sent"

    with vela.Client(service_url) as client:
        consumer = client.subscribe(topic, "s")
        assert in_a_child(publish) == ["'sent'"]
        assert consumer.receive(WAIT_MS).data() == b"from the child"
