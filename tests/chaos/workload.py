"""The load while processes are killed: Apache's client sends and receives numbered messages, and records everything."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import pulsar

from tests.support.waiting import wait_until

__all__ = ["Record", "Workload"]

RECEIVER_QUEUE = 500
RECEIVE_TIMEOUT_MS = 200
PAUSE_S = 0.002


@dataclass(slots=True)
class Record:
    """What the clients saw. The payload of a message is its number."""

    # Number → ledger, entry, batch index.
    receipts: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)  # number → the client's error
    deliveries: Counter[int] = field(default_factory=Counter)  # number → times received
    acks: list[tuple[float, int]] = field(default_factory=list)  # (monotonic s, number)


class Workload:
    """One producer and one consumer on a topic; `stop_sending` and `stop` end them."""

    def __init__(
        self,
        url: str,
        topic: str,
        *,
        subscription: str,
        shared: bool,
        rate_per_s: int,
        batching: bool,
        deduplicated: bool = False,
    ) -> None:
        self.record = Record()
        self.topic = topic
        self.sent = 0
        self._rate_per_s = rate_per_s
        self._client = pulsar.Client(
            url, operation_timeout_seconds=60, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        kind = pulsar.ConsumerType.Shared if shared else pulsar.ConsumerType.Exclusive
        self._consumer = self._client.subscribe(
            topic, subscription, consumer_type=kind, receiver_queue_size=RECEIVER_QUEUE
        )
        self._producer = self._client.create_producer(
            topic,
            # By this name the broker recognizes messages that the previous connection already sent.
            producer_name="chaos" if deduplicated else None,
            batching_enabled=batching,
            batching_max_publish_delay_ms=5,
            send_timeout_millis=0,  # wait for the broker to come back, however long it takes
            block_if_queue_full=True,
            max_pending_messages=2000,
        )
        self._sending = threading.Event()
        self._running = threading.Event()
        self._threads = [
            threading.Thread(target=self._send, name="send"),
            threading.Thread(target=self._receive, name="receive"),
        ]

    def start(self) -> None:
        """Begin publishing and consuming."""
        self._sending.set()
        self._running.set()
        for thread in self._threads:
            thread.start()

    def stop_sending(self) -> None:
        """Send no more messages. Return when each has its receipt or has failed."""
        self._sending.clear()
        self._threads[0].join()
        self._producer.flush()
        # flush() can return while another thread of the client still calls the callbacks of the last batch.
        wait_until(lambda: self._answered() == self.sent, "a receipt or an error for each message")

    def stop(self) -> None:
        """Stop sending and receiving, and close the client."""
        self._sending.clear()
        self._running.clear()
        for thread in self._threads:
            thread.join()
        self._client.close()

    def outstanding(self) -> set[int]:
        """Return the messages that have a receipt and were not delivered yet."""
        return self.record.receipts.keys() - self.record.deliveries.keys()

    def _send(self) -> None:
        began_s = time.monotonic()
        while self._sending.is_set():
            due = int((time.monotonic() - began_s) * self._rate_per_s)
            for number in range(self.sent, max(due, self.sent)):
                self._producer.send_async(str(number).encode(), self._receipt_of(number))
                self.sent = number + 1
                if not self._sending.is_set():
                    return
            self._pause()

    def _answered(self) -> int:
        return len(self.record.receipts) + len(self.record.failed)

    def _receipt_of(self, number: int) -> object:
        def answered(result: pulsar.Result, message_id: pulsar.MessageId) -> None:
            if result == pulsar.Result.Ok:
                self.record.receipts[number] = (
                    message_id.ledger_id(),
                    message_id.entry_id(),
                    message_id.batch_index(),
                )
            else:
                self.record.failed[number] = str(result)

        return answered

    def _receive(self) -> None:
        while self._running.is_set():
            try:
                message = self._consumer.receive(RECEIVE_TIMEOUT_MS)
            except pulsar.Timeout:
                continue
            number = int(message.data())
            self.record.deliveries[number] += 1
            self._consumer.acknowledge(message)
            self.record.acks.append((time.monotonic(), number))

    def _pause(self) -> None:
        """Pace the sender to the workload's rate. This does not wait for a condition."""
        time.sleep(PAUSE_S)
