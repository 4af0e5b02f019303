"""`make demo`: a small workload beside a running Vela, so that the console has something to show.

One topic of orders at 20 messages a second and three subscriptions, each with a story:

- `billing` keeps up: three consumers on Shared, everything acknowledged;
- `reports` is stuck in a way that is hard to see: one consumer prefetches 1,000 messages and acknowledges one every two
  seconds, while a second consumer takes none;
- `invoices` has poison messages: one order in 2,000 fails each time and is delivered again after three seconds.

Ctrl-C ends it; the topic and its backlog stay.
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

TOPIC = "persistent://public/default/demo-orders"
RATE_PER_S = 20
HOARD = 1000
SLOW_S = 2.0
POISON_EVERY = 2000  # orders
RETRY_MS = 3000
RECEIVE_MS = 500


class Demo:
    """Threads around Apache's client, ended together."""

    def __init__(self, url: str) -> None:
        token = os.environ.get("VELA_TOKEN")
        self._client = pulsar.Client(
            url,
            authentication=pulsar.AuthenticationToken(token) if token else None,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def run(self) -> None:
        """Publish and consume until `end` is called. Raises PulsarException if no Vela answers."""
        for name in ("billing-1", "billing-2", "billing-3"):
            self._begin(self._consume_well, name)
        self._begin(self._hoard, "reports-hoarder")
        self._begin(self._idle, "reports-idle")
        self._begin(self._fail_on_poison, "invoices-1")
        self._begin(self._publish, "shop")
        print("demo runs; open the console and look at demo-orders. Ctrl-C ends it.", flush=True)
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

    def _subscribe(self, subscription: str, name: str, *, queue: int) -> pulsar.Consumer:
        return self._client.subscribe(
            TOPIC,
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
        producer = self._client.create_producer(TOPIC, producer_name=f"{name}-{os.getpid()}")
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

    def _hoard(self, name: str) -> None:
        consumer = self._subscribe("reports", name, queue=HOARD)
        while not self._ended.wait(SLOW_S):
            if message := self._next(consumer):
                consumer.acknowledge(message)

    def _idle(self, name: str) -> None:
        # Connect later than the other consumer, which by then has prefetched the first messages.
        if self._ended.wait(SLOW_S):
            return
        consumer = self._subscribe("reports", name, queue=1)
        self._ended.wait()
        consumer.close()

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
