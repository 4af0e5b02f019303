"""Faults of consumption as the console shows them: their causes, and the flags of their clients in the lists.

All faults start before the first test, each on a separate topic. So all rules wait for their windows at the same time.
"""

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

FAULTS = (faults.no_permits, faults.hoarder, faults.poison, faults.no_consumer, faults.paused)
SHOWN_WITHIN_S = 40.0  # the longest window of a rule is 20 s; the machine may be busy


@pytest.fixture(scope="module", autouse=True)
def kinds(shared_vela: VelaProcess) -> Iterator[Place]:
    """A topic with clients of each kind."""
    with ExitStack() as stack:
        place = Place(vela=shared_vela, topic="kinds", stack=stack)
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


@pytest.fixture(scope="module", autouse=True)
def places(shared_vela: VelaProcess, kinds: Place) -> Iterator[dict[str, Place]]:
    """A topic for each fault, by the name of the rule that finds it."""
    with ExitStack() as stack:
        found = {
            fault.__name__: Place(vela=shared_vela, topic=f"fault-{fault.__name__}", stack=stack)
            for fault in FAULTS
        }
        for fault, place in zip(FAULTS, found.values(), strict=True):
            fault(place)
        yield found


def test_the_cause_of_each_fault_is_named(places: dict[str, Place]) -> None:
    found = {rule: place.waits_for(rule, timeout_s=SHOWN_WITHIN_S) for rule, place in places.items()}
    assert "worker was the last one: its client closed it" in found["no_consumer"]["sentence"]
    assert "admin paused the subscription" in found["paused"]["sentence"]
    assert (
        "greedy has 100 messages in its queue, while idle has nothing to do" in found["hoarder"]["sentence"]
    )
    assert "skip_one" in [cure["act"] for cure in found["poison"]["cures"]]


def test_the_hoarder_is_found_closed_from_its_row_and_told_why(
    shared_vela: VelaProcess, places: dict[str, Place]
) -> None:
    place = places["hoarder"]
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
    # The hoarder's messages must go to the consumer that was idle.
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


@pytest.mark.parametrize(
    ("type_", "greedy_queue", "idle_queue", "act"),
    [
        (pulsar.ConsumerType.Shared, 1000, 1000, "disconnect"),
        (pulsar.ConsumerType.Shared, 100, 10, "redeliver"),
        (pulsar.ConsumerType.KeyShared, 1000, 1000, "disconnect"),
    ],
)
def test_after_the_first_cure_of_a_hoarder_the_other_consumer_works(
    shared_vela: VelaProcess,
    type_: pulsar.ConsumerType,
    greedy_queue: int,
    idle_queue: int,
    act: str,
) -> None:
    with ExitStack() as stack:
        place = Place(vela=shared_vela, topic=f"cure-{type_.name}-{act}", stack=stack)
        # The application never receives from this consumer.
        place.subscribe("greedy", type_=type_, queue=greedy_queue)
        place.publish(faults.numbered(100), keys=10)
        place.has_in_flight(100)
        idle = place.subscribe("idle", type_=type_, queue=idle_queue)
        finding = place.waits_for("hoarder", timeout_s=SHOWN_WITHIN_S)
        cure = finding["cures"][0]
        assert cure["act"] == act
        place.act(act, **cure["parameters"])
        for _ in range(50):
            idle.acknowledge(idle.receive(20_000))


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
