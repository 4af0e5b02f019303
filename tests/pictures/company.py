"""A company's work on a Vela: several tenants whose topics keep up, fall behind, are stuck or contain poison.

Clients are Apache's. Each thread is one application of the company.
"""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, Self

import pulsar
from pulsar.schema import AvroSchema, Float, Integer, JsonSchema, Record, String

__all__ = ["INVOICES", "LEDGER_LETTERS", "ORDERS", "PAYMENTS", "POSITIONS", "REMINDERS", "REPORTS", "Company"]

ORDERS: Final = "persistent://shop/checkout/orders"
PAYMENTS: Final = "persistent://shop/checkout/payments"
INVOICES: Final = "persistent://shop/checkout/invoices"
LEDGER_LETTERS: Final = f"{PAYMENTS}-ledger-DLQ"
REMINDERS: Final = "persistent://shop/mail/reminders"
REPORTS: Final = "persistent://shop/office/reports"
POSITIONS: Final = "persistent://fleet/telemetry/positions"
EVENTS: Final = "persistent://fleet/telemetry/events"
SHARED: Final = pulsar.ConsumerType.Shared
_TAKEN_S: Final = 2.0  # the slow consumer takes every report in less time
_REPORTS: Final = 600
_LETTERS: Final = 11
_REASONS: Final = (
    "PaymentRefused: the bank answered 402 for account 7781",
    "Timeout: no answer from ledger.internal within 30 s",
    "SchemaError: field amount is missing",
)
_CITIES: Final = ("Hamburg", "Lyon", "Porto", "Gdańsk", "Turin")


class Payment(Record):  # type: ignore[misc]
    """A payment, as JSON."""

    payment = Integer()
    order = Integer()
    account = String()
    amount = Float()
    currency = String()


class Position(Record):  # type: ignore[misc]
    """Where a truck is, as Avro."""

    truck = String()
    latitude = Float()
    longitude = Float()
    speed_kmh = Integer()


class Company:
    """The company's applications. They run inside a `with` block."""

    def __init__(self, url: str, *, seed: int = 7) -> None:
        self._client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        self._chance = random.Random(seed)
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        """Start the applications. Returns when the steps that must happen in order have happened."""
        self._wait_for_letters()
        self._remind()
        self._hoard()
        self._keep_up(ORDERS, "billing", 3)
        self._keep_up(ORDERS, "fraud-check", 2, type_=pulsar.ConsumerType.KeyShared)
        self._keep_up(ORDERS, "search-index", 2, type_=pulsar.ConsumerType.Failover)
        self._keep_up(INVOICES, "mailer", 2, fails=lambda body: bool(body.get("broken")))
        self._keep_up(POSITIONS, "map", 2)
        self._keep_up(POSITIONS, "geofence", 2, takes_s=0.09)
        self._keep_up(EVENTS, "maintenance", 1)
        self._pause_later(PAYMENTS, "ledger")
        self._keep_up(PAYMENTS, "receipts", 1)
        self._publish(ORDERS, self._orders(), every_s=0.03)
        self._publish(INVOICES, self._invoices(), every_s=0.15)
        self._publish(EVENTS, self._events(), every_s=0.4)
        self._publish_records(PAYMENTS, JsonSchema(Payment), self._payments(), every_s=0.25)
        self._publish_records(POSITIONS, AvroSchema(Position), self._positions(), every_s=0.02)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the applications and close their connections."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._client.close()

    def _begin(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work)
        self._threads.append(thread)
        thread.start()

    def _subscribe(self, topic: str, name: str, consumer: str, **more: Any) -> pulsar.Consumer:
        return self._client.subscribe(
            topic,
            name,
            consumer_name=consumer,
            initial_position=pulsar.InitialPosition.Earliest,
            negative_ack_redelivery_delay_ms=2000,
            **{"consumer_type": SHARED, "receiver_queue_size": 200, **more},
        )

    def _keep_up(
        self,
        topic: str,
        name: str,
        consumers: int,
        *,
        type_: pulsar.ConsumerType = SHARED,
        takes_s: float = 0.0,
        fails: Callable[[dict[str, Any]], bool] | None = None,
    ) -> None:
        for number in range(consumers):
            consumer = self._subscribe(topic, name, f"{name}-{number + 1}", consumer_type=type_)
            self._begin(lambda consumer=consumer: self._consume(consumer, takes_s, fails))  # type: ignore[misc]

    def _consume(
        self, consumer: pulsar.Consumer, takes_s: float, fails: Callable[[dict[str, Any]], bool] | None
    ) -> None:
        while not self._ended.is_set():
            with suppress(pulsar.Timeout):
                message = consumer.receive(500)
                if takes_s:
                    self._ended.wait(takes_s)
                if fails is not None and fails(json.loads(message.data())):
                    consumer.negative_acknowledge(message)
                else:
                    consumer.acknowledge(message)

    def _publish(self, topic: str, bodies: Iterator[tuple[str, dict[str, Any]]], *, every_s: float) -> None:
        producer = self._client.create_producer(topic, producer_name=f"{topic.rpartition('/')[2]}-api")

        def run() -> None:
            for key, body in bodies:
                producer.send(
                    json.dumps(body).encode(),
                    partition_key=key,
                    properties={"region": "eu", "trace": f"{body['id']:08x}"},
                )
                if self._ended.wait(every_s):
                    return

        self._begin(run)

    def _publish_records(
        self, topic: str, schema: Any, records: Iterator[tuple[str, Record]], *, every_s: float
    ) -> None:
        producer = self._client.create_producer(
            topic, schema=schema, producer_name=f"{topic.rpartition('/')[2]}-api"
        )

        def run() -> None:
            for key, record in records:
                producer.send(record, partition_key=key, properties={"region": "eu"})
                if self._ended.wait(every_s):
                    return

        self._begin(run)

    def _orders(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for number in itertools.count(48_211):
            customer = f"c-{self._chance.randint(1, 400):03}"
            yield (
                customer,
                {
                    "id": number,
                    "customer": customer,
                    "amount": round(self._chance.uniform(3, 300), 2),
                    "city": self._chance.choice(_CITIES),
                    "lines": [
                        {
                            "article": f"A-{self._chance.randint(100, 999)}",
                            "pieces": self._chance.randint(1, 4),
                        }
                    ],
                },
            )

    def _invoices(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for number in itertools.count(9_000):
            broken = number == 9_005
            yield f"i-{number}", {"id": number, "total": 0 if broken else 49.9, "broken": broken}

    def _events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for number in itertools.count(1):
            yield f"t-{number % 40:02}", {"id": number, "kind": self._chance.choice(["door", "fuel", "tyre"])}

    def _payments(self) -> Iterator[tuple[str, Record]]:
        for number in itertools.count(77_100):
            account = f"acc-{self._chance.randint(1000, 1040)}"
            yield (
                account,
                Payment(
                    payment=number,
                    order=number - 28_900,
                    account=account,
                    amount=round(self._chance.uniform(3, 300), 2),
                    currency="EUR",
                ),
            )

    def _positions(self) -> Iterator[tuple[str, Record]]:
        while True:
            truck = f"truck-{self._chance.randint(1, 60):02}"
            yield (
                truck,
                Position(
                    truck=truck,
                    latitude=round(self._chance.uniform(43, 54), 4),
                    longitude=round(self._chance.uniform(-8, 19), 4),
                    speed_kmh=self._chance.randint(0, 90),
                ),
            )

    def _wait_for_letters(self) -> None:
        """Publish refused payments as dead letters with their reasons, and let a desk read the first letters."""
        self._subscribe(PAYMENTS, "ledger", "ledger-1").close()
        desk = self._subscribe(LEDGER_LETTERS, "desk", "desk-1")
        producer = self._client.create_producer(LEDGER_LETTERS, batching_enabled=False)
        for number in range(_LETTERS):
            body = {"payment": 76_000 + number, "account": f"acc-{1000 + number}", "amount": 12.5 * number}
            producer.send(
                json.dumps(body).encode(),
                partition_key=str(body["account"]),
                properties={
                    "REAL_TOPIC": PAYMENTS,
                    "REAL_SUBSCRIPTION": "ledger",
                    "exception": _REASONS[number * number % 7 % len(_REASONS)],
                    "ORIGIN_MESSAGE_ID": f"(1,{number},-1,-1)",
                },
            )
        for _ in range(3):
            desk.acknowledge(desk.receive(20_000))
        desk.close()
        producer.close()

    def _remind(self) -> None:
        """Publish messages that are delivered hours later."""
        self._keep_up(REMINDERS, "sender", 1)
        producer = self._client.create_producer(
            REMINDERS, batching_enabled=False, producer_name="reminders-api"
        )
        for number in range(40):
            body = {"reminder": number, "mail": f"c-{number:03}@example.org"}
            producer.send(json.dumps(body).encode(), deliver_after=timedelta(hours=1 + number / 7))

    def _hoard(self) -> None:
        """Let a slow consumer take every report into its queue, so that a quick one has nothing to do."""
        slow = self._subscribe(REPORTS, "renderer", "renderer-1", receiver_queue_size=1000)
        producer = self._client.create_producer(REPORTS, producer_name="reports-api")
        for number in range(_REPORTS):
            producer.send_async(
                json.dumps({"id": number, "report": "monthly"}).encode(), None, partition_key=f"r-{number}"
            )
        producer.flush()
        self._begin(lambda: self._consume(slow, 2.0, None))
        self._ended.wait(_TAKEN_S)
        quick = self._subscribe(REPORTS, "renderer", "renderer-2")
        self._begin(lambda: self._consume(quick, 0.05, None))

    def _pause_later(self, topic: str, name: str) -> None:
        """Subscribe a consumer that soon leaves, so that nobody reads the topic any more."""
        consumer = self._subscribe(topic, name, f"{name}-1")

        def run() -> None:
            self._ended.wait(5)
            consumer.close()

        self._begin(run)
