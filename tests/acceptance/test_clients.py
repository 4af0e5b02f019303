"""Clients that misbehave in different ways are found in the list of all clients, and closed from their rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlencode

import pulsar
import pytest

from tests.support import faults
from tests.support.console import ConsoleSession
from tests.support.faults import Place
from tests.support.vela import VelaProcess
from tests.support.waiting import wait_until

SHOWN_WITHIN_S = 40.0  # the longest window is 20 s; the machine may be busy
TOPIC = "clients"


@pytest.fixture(scope="module", autouse=True)
def kinds(shared_vela: VelaProcess) -> Iterator[Place]:
    """A topic with clients of each kind, started before the first test: the windows of their flags pass meanwhile."""
    with ExitStack() as stack:
        place = Place(vela=shared_vela, topic=f"{TOPIC}-kinds", stack=stack)
        worker = place.subscribe("worker", queue=100)
        place.raw_consumer(protocol_version=11)
        place.client.subscribe(
            place.full_name,
            "audit",
            consumer_type=pulsar.ConsumerType.Exclusive,
            consumer_name="deaf",
            receiver_queue_size=5,
            initial_position=pulsar.InitialPosition.Earliest,
        )
        place.client.create_reader(place.full_name, pulsar.MessageId.earliest)
        producer = place.client.create_producer(place.full_name, producer_name="till", batching_enabled=False)
        place.in_background(lambda: worker.acknowledge(worker.receive(200)))
        place.in_background(lambda: ignored(producer.send(b"x")))
        yield place


def test_the_hoarder_is_found_closed_from_its_row_and_told_why(shared_vela: VelaProcess) -> None:
    with ExitStack() as stack:
        place = Place(vela=shared_vela, topic=TOPIC, stack=stack)
        faults.hoarder(place)
        console = ConsoleSession.logged_in(shared_vela)
        listed = f"/consumers?{urlencode({'topic': place.full_name, 'flag': 'hoarding'})}"
        (address,) = wait_until(
            lambda: re.findall(
                r'href="([^"]*act/disconnect[^"]*)"', console.get(listed).text.replace("&amp;", "&")
            ),
            "the hoarder in the list",
            timeout_s=SHOWN_WITHIN_S,
            every_s=0.25,
        )
        assert "consumer=greedy&consumer_key=" in address
        form = console.get(address)
        key = re.search(r'name="consumer_key"[^>]*value="(\d+)"', form.text, re.DOTALL)
        assert key is not None
        planned = console.plan(
            place.full_name,
            faults.SUBSCRIPTION,
            "disconnect",
            {"consumer_key": key[1], "reason": "too greedy"},
        )
        assert planned.plan["words"] == [
            "consumer greedy is closed; 100 messages that it has not acked are delivered again"
        ]
        assert console.apply(planned).state == "applied"
        # Everything that it had goes to the consumer that had nothing to do.
        (idle,) = wait_until(
            lambda: [
                each
                for each in place.api(f"consumers?{urlencode({'topic': place.full_name, 'name': 'idle'})}")[
                    "consumers"
                ]
                if each["unacked_messages"] > 0
            ],
            "its messages at the other consumer",
            timeout_s=SHOWN_WITHIN_S,
            every_s=0.25,
        )
        assert idle["key"] != int(key[1])


def test_each_kind_of_client_is_listed_with_its_rates_and_flags(
    shared_vela: VelaProcess, kinds: Place
) -> None:
    place = kinds
    listed = f"consumers?{urlencode({'topic': place.full_name, 'limit': 500})}"

    def judged() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = place.api(listed)["consumers"]
        by_name = {each["name"]: each for each in rows}
        if not {"deaf", "worker"} <= set(by_name):
            return []
        is_deaf = {"silent", "ack-less"} <= set(by_name["deaf"]["flags"])
        return rows if is_deaf and by_name["worker"]["message_rate_acked"] > 0 else []

    rows = wait_until(
        judged,
        "one consumer to be flagged and one to have a rate",
        timeout_s=SHOWN_WITHIN_S,
        every_s=0.25,
    )
    (deaf,) = (each for each in rows if each["name"] == "deaf")
    assert (deaf["subscription_type"], deaf["unacked_messages"]) == ("Exclusive", 5)
    assert [each["client_version"] for each in rows if "old" in each["flags"]] == ["raw"]
    assert [each["subscription_id"] for each in rows].count(None) == 1, "the reader"
    (till,) = place.api(f"producers?{urlencode({'topic': place.full_name})}")["producers"]
    assert (till["name"], till["access_mode"], till["flags"]) == ("till", "Shared", [])
    assert till["message_rate_in"] > 0
    console = ConsoleSession.logged_in(shared_vela)
    assert "till" in console.get(f"/producers?{urlencode({'topic': place.full_name})}").text


def ignored(_: object) -> None:
    """Drop a result."""
