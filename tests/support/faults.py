"""Cause faults of consumption with real clients on one topic, and read what the console says about them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import psycopg
import pulsar

from tests.support.api import ask
from tests.support.raw_pulsar import RawPulsar
from tests.support.vela import VelaProcess
from tests.support.waiting import wait_until
from vela.wire.binary import commands

__all__ = ["Place", "hoarder", "no_consumer", "no_permits", "paused", "poison"]

SUBSCRIPTION = "billing"
SHARED = pulsar.ConsumerType.Shared
BAD = b"bad"


@dataclass(slots=True, kw_only=True)
class Place:
    """A topic of a running Vela, with clients that `stack` closes."""

    vela: VelaProcess
    topic: str  # local name
    stack: ExitStack
    _client: pulsar.Client | None = field(default=None)

    @property
    def full_name(self) -> str:
        """The topic's full name, persistent://public/default/…"""
        return f"persistent://public/default/{self.topic}"

    @property
    def client(self) -> pulsar.Client:
        """Apache's client of this place."""
        if self._client is None:
            logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
            self._client = pulsar.Client(self.vela.pulsar_url, logger=logger)
            self.stack.callback(self._client.close)
        return self._client

    def subscribe(
        self, name: str, *, type_: pulsar.ConsumerType = SHARED, queue: int = 1000, **more: Any
    ) -> pulsar.Consumer:
        """Subscribe a consumer from the beginning of the topic."""
        return self.client.subscribe(
            self.full_name,
            SUBSCRIPTION,
            consumer_type=type_,
            consumer_name=name,
            receiver_queue_size=queue,
            initial_position=pulsar.InitialPosition.Earliest,
            **more,
        )

    def publish(self, payloads: list[bytes], *, topic: str = "", keys: int = 0, **more: Any) -> None:
        """Publish the payloads, each in a separate entry. With `keys`, use that many different keys."""
        producer = self.client.create_producer(topic or self.full_name, batching_enabled=False)
        for number, payload in enumerate(payloads):
            producer.send(payload, partition_key=f"k{number % keys}" if keys else None, **more)
        producer.close()

    def publish_batch(self, messages: int) -> None:
        """Publish one entry with several messages."""
        producer = self.client.create_producer(
            self.full_name,
            batching_enabled=True,
            batching_max_messages=messages,
            batching_max_publish_delay_ms=5000,
        )
        for number in range(messages):
            producer.send_async(b"%d" % number, lambda result, message_id: None)
        producer.flush()
        producer.close()

    def in_background(self, turn: Callable[[], None]) -> None:
        """Call `turn` repeatedly until the test ends. A Timeout that it raises is ignored."""
        ended = threading.Event()

        def run() -> None:
            while not ended.is_set():
                with suppress(pulsar.Timeout):
                    turn()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.stack.callback(thread.join, 10)
        self.stack.callback(ended.set)

    def has_in_flight(self, messages: int) -> None:
        """Wait until the broker has reported this many messages in flight."""
        wait_until(
            lambda: self.api(f"{self._path}")["unacked_messages"] == messages,
            f"{messages} messages in flight",
            timeout_s=20,
        )

    def act(self, kind: str, *, subscription: str = SUBSCRIPTION, **parameters: Any) -> None:
        """Plan and apply an act."""
        asked = {
            "kind": kind,
            "topic": self.full_name,
            "subscription": subscription,
            "parameters": parameters,
        }
        planned = self.api("acts", asked)
        applied = self.api(f"acts/{planned['id']}/apply", {"reason": "fault"})
        assert applied["state"] == "applied", applied

    def set_policy(self, name: str, value: int) -> None:
        """Set a policy of the topic."""
        self.act("set_topic_policies", subscription="", set={name: str(value)})

    def findings(self) -> list[dict[str, Any]]:
        """Return the console's findings, or none while it cannot answer."""
        try:
            status, found = ask(self.vela, f"{self._path}/diagnosis")
        except TimeoutError:
            return []
        return list(found["findings"]) if status == HTTPStatus.OK else []

    def waits_for(self, rule: str, *, timeout_s: float, leads: bool = True) -> dict[str, Any]:
        """Wait until a rule's finding is the first one, or any one if `leads` is False. Return the finding."""
        seen: list[str] = []

        def found() -> dict[str, Any] | None:
            findings = self.findings()
            seen[:] = [each["rule"] for each in findings]
            chosen = findings[:1] if leads else findings
            return next((each for each in chosen if each["rule"] == rule), None)

        try:
            return wait_until(found, "", timeout_s=timeout_s, every_s=0.25) or {}
        except AssertionError as error:
            raise AssertionError(f"{rule} did not lead within {timeout_s} s: {seen}") from error

    @property
    def _path(self) -> str:
        return f"topics/persistent/public/default/{self.topic}/subscriptions/{SUBSCRIPTION}"

    def api(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask the console's API as the admin."""
        status, found = ask(self.vela, path, body)
        assert status < HTTPStatus.BAD_REQUEST, (path, status, found)
        return found

    def database(self, *, autocommit: bool = True) -> psycopg.Connection[Any]:
        """Return a separate connection to Vela's database."""
        connection = psycopg.connect(
            self.vela.database_url, autocommit=autocommit, application_name="a stranger"
        )
        self.stack.callback(connection.close)
        return connection

    def raw_consumer(self, *, protocol_version: int = 21) -> RawPulsar:
        """Subscribe a consumer that does nothing by itself."""
        peer = self.stack.enter_context(RawPulsar(self.vela.pulsar_url, connect=False))
        peer.ask("CONNECTED", commands.connect(client_version="raw", protocol_version=protocol_version))
        peer.subscribe(self.full_name, SUBSCRIPTION)
        return peer


def numbered(count: int) -> list[bytes]:
    """Return this many different payloads."""
    return [b"%d" % number for number in range(count)]


def no_consumer(place: Place) -> None:
    """Close the only consumer."""
    consumer = place.subscribe("worker")
    place.publish(numbered(5))
    consumer.close()


def paused(place: Place) -> None:
    """Pause the subscription while a consumer waits."""
    place.subscribe("worker")
    place.act("pause")
    place.publish(numbered(5))


def no_permits(place: Place) -> None:
    """Subscribe an application that never calls receive."""
    place.subscribe("worker", queue=10)
    place.publish(numbered(100))


def hoarder(place: Place) -> None:
    """Let one consumer take everything before another one subscribes."""
    place.subscribe("greedy")
    place.publish(numbered(100))
    place.has_in_flight(100)
    place.subscribe("idle")


def poison(place: Place) -> None:
    """Run a consumer that fails on one message and acks all others."""
    consumer = place.subscribe("worker", negative_ack_redelivery_delay_ms=100)

    def turn() -> None:
        message = consumer.receive(500)
        if message.data() == BAD:
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)

    place.in_background(turn)
    place.publish([BAD, *numbered(20)])
