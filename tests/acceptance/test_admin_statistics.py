"""The statistics of the admin API have every field that a recorded Apache Pulsar gave, with values of the same kind."""

from __future__ import annotations

import json
from typing import Any, cast

import httpx
import pulsar
import pytest

from tests.support.record_apache import DATA
from tests.support.statistics import RECORDED, Shape, documents_of, shape_of
from tests.support.vela import VelaProcess

KEYS = 20


@pytest.fixture(scope="module")
def documents(shared_vela: VelaProcess) -> dict[str, Any]:
    """Vela's answers, by path."""
    return documents_of(shared_vela.pulsar_url, shared_vela.http_url)


def missing(recorded: Shape, found: Shape, place: str = "") -> list[str]:
    """Return the places where a field of the recorded document is missing, or its value has another kind."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        return [
            each
            for name, shape in recorded.items()
            for each in (
                missing(shape, found[name], f"{place}.{name}")
                if name in found
                else [f"{place}.{name} is missing"]
            )
        ]
    if isinstance(recorded, list) and isinstance(found, list):
        return missing(recorded[0], found[0], f"{place}[]") if recorded and found else []
    return [] if recorded == found else [f"{place} is {found}, not {recorded}"]


_, *LINES = (DATA / RECORDED).read_text(encoding="utf-8").splitlines()
RECORD = {each["path"]: each["shape"] for each in map(json.loads, LINES)}


@pytest.mark.parametrize("path", RECORD)
def test_statistics_have_the_fields_of_pulsar(path: str, documents: dict[str, Any]) -> None:
    assert missing(cast("Shape", RECORD[path]), shape_of(documents[path])) == []


def test_a_consumer_names_the_hashes_that_wait_for_it(shared_vela: VelaProcess) -> None:
    client = pulsar.Client(shared_vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))

    def join(name: str) -> pulsar.Consumer:
        return client.subscribe("draining", "s", pulsar.ConsumerType.KeyShared, consumer_name=name)

    first = join("first")
    producer = client.create_producer("draining")
    for number in range(2 * KEYS):
        producer.send(b"x", partition_key=str(number % KEYS))
    for _ in range(2 * KEYS):
        first.receive(timeout_millis=20_000)
    second = join("second")
    address = f"{shared_vela.http_url}/admin/v2/persistent/public/default/draining/stats"
    stats = httpx.get(address, timeout=30).raise_for_status().json()["subscriptions"]["s"]
    waiting, joined = stats["consumers"]
    assert (waiting["consumerName"], joined["drainingHashes"]) == ("first", [])
    assert (
        0 < waiting["drainingHashesCount"] == len(waiting["drainingHashes"]) == stats["drainingHashesCount"]
    )
    assert {each["unackMsgs"] for each in waiting["drainingHashes"]} <= {2 * each for each in range(KEYS)}
    assert (waiting["avgMessagesPerEntry"], joined["firstMessagesSentTimestamp"]) == (1, 0)
    assert stats["lastMarkDeleteAdvancedTimestamp"] == 0
    second.close()
    client.close()


def test_a_missing_field_is_found() -> None:
    assert missing({"a": "number", "b": ["text"]}, {"a": "text"}) == [
        ".a is text, not number",
        ".b is missing",
    ]
