"""Topics made, filled and deleted from the console, without JavaScript, with Apache's client at the other end."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pulsar
import pytest

from tests.support.console import ConsoleSession, Page
from tests.support.vela import VelaProcess


@pytest.fixture
def client(shared_vela: VelaProcess) -> Iterator[pulsar.Client]:
    """Apache's client."""
    client = pulsar.Client(
        shared_vela.pulsar_url,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        operation_timeout_seconds=20,
    )
    yield client
    client.close()


def applied(session: ConsoleSession, planned: Page, *, typed_name: str = "") -> Page:
    """Apply the plan that a form led to, and return the receipt."""
    found = re.search(r"/acts/(\d+)", planned.url)
    assert found, f"no plan was made ({planned.status}): {planned.text[:2000]}"
    act = session.apply(session.act(int(found[1])), typed_name=typed_name)
    assert act.state == "applied", act.error
    return session.get(f"/acts/{act.id}")


def test_a_topic_is_created_filled_read_and_deleted_by_forms_alone(
    shared_vela: VelaProcess, client: pulsar.Client
) -> None:
    session = ConsoleSession.logged_in(shared_vela)
    session.get("/topics/new")
    created = session.post(
        "/topics/new", {"namespace": "public/default", "name": "by-hand", "partitions": "2", "policies": ""}
    )
    applied(session, created)
    consumer = client.subscribe("by-hand", "s", initial_position=pulsar.InitialPosition.Earliest)
    message = {
        "value": '{"order": 17}',
        "encoding": "json",
        "key": "customer-4",
        "key_encoding": "text",
        "properties": "by = hand",
        "event_time": "2026-01-31 09:30",
        "delay_unit": "s",
    }
    topic = "/t/persistent/public/default/by-hand"
    receipt = applied(session, session.post(f"{topic}/act/publish", message))
    first = consumer.receive(timeout_millis=20_000)
    assert first.data() == b'{"order": 17}'
    assert (first.partition_key(), first.properties()) == ("customer-4", {"by": "hand"})
    assert first.event_timestamp() == 1_769_851_800_000
    consumer.acknowledge(first)

    found = re.search(r'href="(/t/[^"]+/m/\d+:\d+)"', receipt.text)
    assert found, "the receipt has no link to the message"
    stored = session.get(f"{found[1]}/again")
    to_topic = re.search(r'name="to_topic"\s+value="([^"]+)"', stored.text)
    assert to_topic, stored.text[:2000]
    applied(session, session.post(f"{found[1]}/again", {"how": "as-is", "to_topic": to_topic[1]}))
    second = consumer.receive(timeout_millis=20_000)
    assert (second.data(), second.partition_key(), second.properties()) == (
        first.data(),
        first.partition_key(),
        first.properties(),
    )
    assert second.event_timestamp() == first.event_timestamp()
    assert second.message_id() != first.message_id()
    consumer.close()

    planned = session.post(f"{topic}/act/delete", {"subscriptions": "on"})
    refused = session.post(re.sub(r"^.*?(/acts/\d+).*$", r"\1/apply", planned.url), {"confirm": "by-han"})
    assert refused.status == 422
    assert session.get(topic).status == 200
    applied(session, planned, typed_name="by-hand")
    assert session.get(topic).status == 404
