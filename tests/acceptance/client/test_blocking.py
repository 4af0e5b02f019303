"""The client for threads: interrupts, many threads, callbacks, and how programs end."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import vela
import vela.aio
import vela.schema
from tests.support.waiting import wait_until
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.core.consuming.state import ConsumerState

WAIT_MS = 20_000


@pytest.fixture
def client(service_url: str) -> Iterator[vela.Client]:
    """A client, closed at the end."""
    with vela.Client(service_url) as made:
        yield made


def interrupt_when(condition: Callable[[], object]) -> threading.Thread:
    """Send Ctrl-C to the main thread as soon as the condition is true."""

    def interrupt() -> None:
        wait_until(condition, "the moment to interrupt")
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    return thread


@pytest.mark.row("S0.34")
def test_an_interrupted_receive_loses_no_message(client: vela.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    interrupting = interrupt_when(lambda: consumer.aio.queue.waiting)
    with pytest.raises(KeyboardInterrupt):
        consumer.receive()
    interrupting.join()
    for number in range(3):
        producer.send(b"%d" % number)
    assert [consumer.receive(WAIT_MS).data() for _ in range(3)] == [b"0", b"1", b"2"]
    assert isinstance(consumer.aio, TopicConsumer)
    assert consumer.aio.counters.receives_failed == 1


@pytest.mark.row("S0.34")
def test_interrupts_at_any_moment_lose_no_message(client: vela.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=True, max_pending_messages=0)
    count = 20_000
    for number in range(count):
        producer.send_async(b"%d" % number, lambda _, __: None)
    producer.flush()
    is_over = threading.Event()

    def interrupt() -> None:
        while not is_over.wait(0.001):
            os.kill(os.getpid(), signal.SIGINT)

    seen: list[int] = []
    interrupts = 0
    # A message that `receive` has returned belongs to the caller, and an interrupt at that moment would lose it here.
    # So the handler raises only while the call runs.
    inside = False

    def handle(_signal: int, _frame: object) -> None:
        if inside:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        while len(seen) < count:
            try:
                inside = True
                message = consumer.receive(WAIT_MS)
                inside = False
            except KeyboardInterrupt:
                inside = False
                interrupts += 1
                continue
            seen.append(int(message.data()))
    finally:
        is_over.set()
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert interrupts > 10
    assert sorted(seen) == list(range(count))


def test_eight_threads_take_every_message_once(client: vela.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=vela.ConsumerType.Shared)
    taken: queue.Queue[int] = queue.Queue()

    def work() -> None:
        for message in consumer:
            consumer.acknowledge(message)
            taken.put(int(message.data()))

    def publish(first: int) -> None:
        for number in range(first, first + 250):
            producer.send_async(b"%d" % number, lambda _, __: None)

    producer = client.create_producer(
        topic, batching_enabled=True, block_if_queue_full=True, max_pending_messages=50
    )
    threads = [threading.Thread(target=work) for _ in range(8)]
    threads += [threading.Thread(target=publish, args=(250 * number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    seen = [taken.get(timeout=WAIT_MS / 1000) for _ in range(2000)]
    consumer.close()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
    assert sorted(seen) == list(range(2000))
    assert taken.empty()


def test_calls_that_wait_raise_an_error_when_the_client_is_closed(client: vela.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            consumer.receive()
        except vela.VelaError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: consumer.aio.queue.waiting == 1, "the receive to wait")
    client.close()
    thread.join(10)
    assert [type(error) for error in errors] == [vela.AlreadyClosed]
    client.close()
    for call in (consumer.receive, lambda: client.subscribe(topic, "t"), consumer.get_last_message_id):
        with pytest.raises(vela.AlreadyClosed):
            call()
    consumer.close()


def test_receives_with_a_callback_are_served_in_order(client: vela.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    answers: queue.Queue[tuple[int, vela.Result, bytes | None]] = queue.Queue()
    for number in range(4):
        consumer.receive_async(
            lambda result, message, number=number: answers.put(  # type: ignore[misc]
                (number, result, message.data() if message else None)
            )
        )
    producer = client.create_producer(topic)
    for number in range(3):
        producer.send(b"%d" % number)
    got = [answers.get(timeout=WAIT_MS / 1000) for _ in range(3)]
    assert got == [(number, vela.Result.Ok, b"%d" % number) for number in range(3)]
    consumer.close()
    assert answers.get(timeout=WAIT_MS / 1000) == (3, vela.Result.AlreadyClosed, None)


def test_callbacks_may_use_the_client(client: vela.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    answers: queue.Queue[tuple[vela.Result, bytes]] = queue.Queue()

    def sent(result: vela.Result, message_id: vela.MessageId) -> None:
        message = consumer.receive(WAIT_MS)
        consumer.acknowledge(message)
        assert message.message_id() == message_id
        answers.put((result, message.data()))

    producer.send_async(b"x", sent)
    assert answers.get(timeout=WAIT_MS / 1000) == (vela.Result.Ok, b"x")


def test_a_full_queue_gives_an_error_result_or_makes_the_send_wait(client: vela.Client, topic: str) -> None:
    client.subscribe(topic, "s")
    results: queue.Queue[vela.Result] = queue.Queue()
    refusing = client.create_producer(
        topic, max_pending_messages=2, batching_enabled=True, batching_max_publish_delay_ms=200
    )
    for _ in range(5):
        refusing.send_async(b"x", lambda result, _: results.put(result))
    found = sorted(results.get(timeout=WAIT_MS / 1000) for _ in range(5))
    assert found == [vela.Result.Ok] * 2 + [vela.Result.ProducerQueueIsFull] * 3
    waiting = client.create_producer(topic, max_pending_messages=2, block_if_queue_full=True)
    for _ in range(20):
        waiting.send_async(b"x", lambda result, _: results.put(result))
    assert {results.get(timeout=WAIT_MS / 1000) for _ in range(20)} == {vela.Result.Ok}


def test_a_wrong_argument_raises_at_once(client: vela.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    with pytest.raises(TypeError, match="bytes"):
        producer.send_async("text", lambda _, __: None)
    with pytest.raises(TypeError, match="'key'"):
        producer.send(b"x", key="k")  # type: ignore[call-arg]

    async def listen(_consumer: object, _message: vela.Message) -> None: ...

    with pytest.raises(vela.InvalidConfiguration, match=r"vela\.aio"):
        client.subscribe(topic, "s", message_listener=listen)


def test_acknowledging_with_a_receipt_waits_for_the_broker(client: vela.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", ack_receipt_enabled=True)
    client.create_producer(topic).send(b"x")
    consumer.acknowledge(consumer.receive(WAIT_MS))
    consumer.close()
    again = client.subscribe(topic, "s")
    with pytest.raises(vela.Timeout):
        again.receive(timeout_millis=100)


def test_a_listener_is_given_the_consumer_that_was_made(client: vela.Client, topic: str) -> None:
    heard: queue.Queue[object] = queue.Queue()

    def listen(consumer: vela.Consumer, message: vela.Message) -> None:
        consumer.acknowledge(message)
        heard.put(consumer)

    consumer = client.subscribe(topic, "s", message_listener=listen)
    client.create_producer(topic).send(b"x")
    assert heard.get(timeout=WAIT_MS / 1000) is consumer


_ENDS_OPEN = """
import sys, threading
import vela

url, topic = sys.argv[1:]
client = vela.Client(url)
is_called = threading.Event()

def listen(consumer, message):
    is_called.set()
    threading.Event().wait()

client.subscribe(topic, "listening", message_listener=listen)
consumer = client.subscribe(topic, "waiting")
threading.Thread(target=lambda: [None for _ in consumer], daemon=True).start()
producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=60000)
producer.send_async(b"x", lambda result, message_id: None)
producer.flush()
assert is_called.wait(20)
producer.send_async(b"gathered", lambda result, message_id: None)
print("the end")
"""


def test_a_program_that_closes_nothing_ends(service_url: str, topic: str, client: vela.Client) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ENDS_OPEN, service_url, topic],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "the end\n", "")
    consumer = client.subscribe(topic, "after", initial_position=vela.InitialPosition.Earliest)
    assert [consumer.receive(WAIT_MS).data() for _ in range(2)] == [b"x", b"gathered"]


def test_unreferenced_clients_are_collected(service_url: str, topic: str) -> None:
    before = threading.active_count()
    for _ in range(3):
        client = vela.Client(service_url)
        client.create_producer(topic).send(b"x")
        del client
    wait_until(lambda: threading.active_count() <= before, "their threads to end")


@pytest.mark.parametrize("time_ms", [2**2000, "5", float("nan"), True])
def test_a_receive_that_is_refused_for_its_time_takes_no_message(
    client: vela.Client, topic: str, time_ms: Any
) -> None:
    consumer = client.subscribe(topic, "s")
    reader = client.create_reader(topic, vela.MessageId.earliest)
    with pytest.raises(vela.InvalidConfiguration, match="timeout_millis"):
        consumer.receive(time_ms)
    with pytest.raises(vela.InvalidConfiguration, match="timeout_millis"):
        reader.read_next(time_ms)
    with pytest.raises(vela.InvalidConfiguration, match="timeout_millis"):
        client.wait_for(lambda: consumer.aio.receive(time_ms))
    client.create_producer(topic).send(b"x")
    assert consumer.receive(WAIT_MS).data() == b"x"
    assert reader.read_next(2**70).data() == b"x"


def test_receive_nowait_and_has_message_available_never_wait(client: vela.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=100)
    assert consumer.receive_nowait() is None
    assert not consumer.has_message_available()
    producer = client.create_producer(topic)
    for number in range(4):
        producer.send(b"%d" % number)
    wait_until(lambda: consumer.available_permits == 96, "the four to come")
    assert consumer.receive(WAIT_MS).data() == b"0"  # prefetches the other messages
    assert consumer.has_message_available()
    taken = [consumer.receive_nowait(), consumer.receive(WAIT_MS), consumer.receive_nowait()]
    assert [message and message.data() for message in taken] == [b"1", b"2", b"3"]
    assert not consumer.has_message_available()
    states = [consumer.state]
    consumer.close()
    states.append(consumer.state)
    assert states == [ConsumerState.READY, ConsumerState.CLOSED]
    with pytest.raises(vela.AlreadyClosed):
        consumer.receive_nowait()


def test_get_schema_returns_the_schema_of_the_topic(client: vela.Client, topic: str) -> None:
    client.create_producer(topic, schema=vela.schema.StringSchema())
    assert client.get_schema(topic).schema.type == vela.schema.StringSchema().schema_info().schema_type
    assert not client.is_closed
    client.close()
    assert client.is_closed


async def test_shutting_down_an_asyncio_client_fails_waiting_calls_at_once(
    service_url: str, topic: str
) -> None:
    client = vela.aio.Client(service_url)
    consumer = await client.subscribe(topic, "s")
    waiting = consumer.receive_async()
    client.shutdown()
    with pytest.raises(vela.VelaError):
        await waiting
    assert not consumer.is_connected()
    with pytest.raises(vela.AlreadyClosed):
        await client.create_producer(topic)
    await client.close()
