"""`make demo`: a small workload for a running Vela, so that the console has something to show.

A topic of orders gets 20 messages a second, and a topic of requests for reports gets 500 messages every ten minutes.
There are three subscriptions:

- `billing` of the orders keeps up: its three consumers share the messages and acknowledge all of them;
- `invoices` of the orders has poison messages: one order in 2,000 fails each time and is delivered again after three
  seconds;
- `reports` is slow in a way that is hard to see: its first consumer has all 500 messages in its queue and needs two
  seconds for each. A second consumer, forty times as fast, has nothing to do. If an operator disconnects the first
  consumer, the second gets its messages.

Ctrl-C ends the demo; the topics and their backlogs stay.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sys
import threading
import time

import pulsar

__all__ = ["main"]

ORDERS = "persistent://public/default/demo-orders"
REPORTS = "persistent://public/default/demo-reports"
RATE_PER_S = 20
BATCH = 500  # reports
BATCH_EVERY_S = 600.0
QUEUE = 1000  # messages, so that a whole batch has room
SLOW_S = 2.0
FAST_S = 0.05
POISON_EVERY = 2000  # orders
RETRY_MS = 3000
RECEIVE_MS = 500
ANSWER_S = 10


class Demo:
    """The threads that publish and consume. They share one client of Apache Pulsar and end together."""

    def __init__(self, url: str) -> None:
        token = os.environ.get("VELA_TOKEN")
        self._client = pulsar.Client(
            url,
            operation_timeout_seconds=ANSWER_S,
            authentication=pulsar.AuthenticationToken(token) if token else None,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def run(self) -> None:
        """Publish and consume until `end` is called. Raises PulsarException if no Vela answers."""
        self._client.get_topic_partitions(ORDERS)  # a thread could not tell `main` that no Vela answers
        for name in ("billing-1", "billing-2", "billing-3"):
            self._begin(self._consume_well, name)
        self._begin(self._fail_on_poison, "invoices-1")
        self._begin(self._publish, "shop")
        self._begin(self._make_reports, "reports")
        print("demo runs; open the console's overview. Ctrl-C ends it.", flush=True)
        self._ended.wait()
        for thread in self._threads:
            thread.join()
        self._client.close()

    def end(self, *_: object) -> None:
        """Stop publishing and consuming."""
        self._ended.set()

    def _begin(self, work: object, name: str) -> None:
        assert callable(work)
        thread = threading.Thread(target=work, args=(name,), name=name)
        self._threads.append(thread)
        thread.start()

    def _subscribe(self, subscription: str, name: str, *, queue: int, topic: str = ORDERS) -> pulsar.Consumer:
        return self._client.subscribe(
            topic,
            subscription,
            consumer_type=pulsar.ConsumerType.Shared,
            consumer_name=name,
            receiver_queue_size=queue,
            negative_ack_redelivery_delay_ms=RETRY_MS,
        )

    def _next(self, consumer: pulsar.Consumer) -> pulsar.Message | None:
        try:
            return consumer.receive(RECEIVE_MS)
        except pulsar.Timeout:
            return None

    def _publish(self, name: str) -> None:
        producer = self._client.create_producer(ORDERS, producer_name=f"{name}-{os.getpid()}")
        for number in itertools.count(1):
            order = {
                "order": number,
                "customer": f"c-{random.randint(1, 400):03}",  # noqa: S311 - made-up orders
                "amount": round(random.uniform(3, 300), 2),  # noqa: S311 - made up too
                "poison": number % POISON_EVERY == 1,
            }
            producer.send(json.dumps(order).encode(), partition_key=str(order["customer"]))
            if self._ended.wait(1 / RATE_PER_S):
                return

    def _consume_well(self, name: str) -> None:
        consumer = self._subscribe("billing", name, queue=100)
        while not self._ended.is_set():
            if message := self._next(consumer):
                consumer.acknowledge(message)

    def _make_reports(self, name: str) -> None:
        # The second consumer connects when the first one has the whole batch in its queue.
        first = self._subscribe(name, f"{name}-hoarder", topic=REPORTS, queue=QUEUE)
        producer = self._client.create_producer(REPORTS, producer_name=f"office-{os.getpid()}")
        self._ask_for_reports(producer)
        self._begin(lambda _: self._make_each(first, SLOW_S), first.consumer_name())
        if not self._ended.wait(SLOW_S):
            second = self._subscribe(name, f"{name}-idle", topic=REPORTS, queue=QUEUE)
            self._begin(lambda _: self._make_each(second, FAST_S), second.consumer_name())
        while not self._ended.wait(BATCH_EVERY_S):
            self._ask_for_reports(producer)

    def _ask_for_reports(self, producer: pulsar.Producer) -> None:
        for number in range(BATCH):
            producer.send(json.dumps({"report": number}).encode())

    def _make_each(self, consumer: pulsar.Consumer, takes_s: float) -> None:
        while not self._ended.is_set():
            if message := self._next(consumer):
                self._ended.wait(takes_s)
                consumer.acknowledge(message)

    def _fail_on_poison(self, name: str) -> None:
        consumer = self._subscribe("invoices", name, queue=100)
        while not self._ended.is_set():
            if message := self._next(consumer):
                if json.loads(message.data())["poison"]:
                    consumer.negative_acknowledge(message)
                else:
                    consumer.acknowledge(message)


def main() -> int:
    """Run the demo until SIGINT or SIGTERM. Return the exit code: 1 if no Vela answers."""
    url = (
        os.environ.get("VELA_ADVERTISED_URL")
        or f"pulsar://127.0.0.1:{os.environ.get('VELA_PULSAR_PORT') or 6650}"
    )
    demo = Demo(url)
    signal.signal(signal.SIGINT, demo.end)
    signal.signal(signal.SIGTERM, demo.end)
    began_s = time.monotonic()
    try:
        demo.run()
    except pulsar.PulsarException as error:
        waited_s = time.monotonic() - began_s
        print(
            f"no Vela answers at {url} ({error} after {waited_s:.0f} s): start one with `make run`, "
            "or name its port in VELA_PULSAR_PORT",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
