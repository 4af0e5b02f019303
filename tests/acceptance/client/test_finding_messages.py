"""Finding messages that real clients published: batches, chunks, keys, delays, encryption, damage and partitions."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pulsar
import pytest

import vela
from tests.support.console import ConsoleSession
from tests.support.keys import write_key_pair
from tests.support.vela import ADMIN_PASSWORD, VelaProcess
from tests.support.waiting import wait_until

API = "/api/v1/topics/persistent/public/default"


@pytest.fixture(scope="module")
def session(shared_vela: VelaProcess) -> ConsoleSession:
    return ConsoleSession.logged_in(shared_vela)


def found(session: ConsoleSession, topic: str, query: str) -> list[dict[str, Any]]:
    """Return the matching messages of all pages."""
    messages: list[dict[str, Any]] = []
    after = ""
    while True:
        page = session.get(f"{API}/{topic}/messages?{query}&after={quote(after)}")
        assert page.status == 200, page.text
        answer = json.loads(page.text)
        messages += answer["messages"]
        after = answer["next_after"] or ""
        if not after:
            return messages


def test_keys_of_batches_are_found_and_the_state_follows_the_acks(
    session: ConsoleSession, shared_vela: VelaProcess
) -> None:
    topic = "found-batches"
    client = pulsar.Client(shared_vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    consumer = client.subscribe(
        topic, "billing", consumer_type=pulsar.ConsumerType.Shared, batch_index_ack_enabled=True
    )
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=20,
        batching_max_publish_delay_ms=50,
        compression_type=pulsar.CompressionType.ZSTD,
    )
    for number in range(100):
        producer.send_async(
            json.dumps({"n": number, "price": number / 2}).encode(),
            callback=lambda *_: None,
            partition_key=f"k{number % 5}",
            properties={"n": str(number)},
        )
    producer.flush()
    assert len(found(session, topic, "key=k3&limit=7")) == 20
    assert [each["properties"] for each in found(session, topic, "prop=n=41")] == [[["n", "41"]]]
    above = found(session, topic, "path=price&op=%3E%3D&value=48&start=oldest")
    assert [json.loads(each["preview"])["n"] for each in above] == [96, 97, 98, 99]
    text = quote('"n": 17,')

    def is_in_flight() -> bool:
        (one,) = found(session, topic, f"text={text}&sub=billing")
        return bool(one["batch_index"] >= 0 and one["state"]["state"] == "in flight")

    wait_until(is_in_flight, "the broker to report the delivery", timeout_s=20)
    received = [consumer.receive(20_000) for _ in range(100)]
    for message in received:
        if json.loads(message.data())["n"] != 17:
            consumer.acknowledge(message)
    consumer.close()
    client.close()

    def unacked() -> list[str]:
        page = session.get(f"/t/persistent/public/default/{topic}/messages?start=next&sub=billing")
        return re.findall(r"data-message\s+href=\"[^\"]*/m/([0-9:]+)\"", page.text)

    wait_until(lambda: len(unacked()) == 1, "the acks to be stored", timeout_s=20)
    address = f"/t/persistent/public/default/{topic}/m/{unacked()[0]}"
    # The broker takes the message back from the closed consumer, and reports that within a second.
    wait_until(lambda: "unacked" in session.get(address).text, "the delivery to end", timeout_s=20)
    assert "a batch of" in session.get(address).text


def test_entries_that_cannot_be_read_are_explained(
    session: ConsoleSession, shared_vela: VelaProcess, tmp_path: Path
) -> None:
    topic = "found-odd"
    public, private = write_key_pair(tmp_path)
    client = vela.Client(shared_vela.pulsar_url)
    plain = client.create_producer(topic, batching_enabled=False)
    first = plain.send(b"\x00\xffbinary", partition_key="k", ordering_key="of another order")
    plain.send(b"later", partition_key="k", deliver_after=timedelta(hours=1))
    sealed = client.create_producer(
        topic,
        encryption_key="finance",
        crypto_key_reader=vela.CryptoKeyReader(public, private),
        batching_enabled=False,
    )
    sealed.send(b"secret", partition_key="k", properties={"kind": "sealed"})
    large = client.create_producer(topic, chunking_enabled=True, batching_enabled=False)
    large.send(bytes(6 * 1024 * 1024), partition_key="k")
    damaged = plain.send(b"to be damaged")
    client.close()
    with psycopg.connect(shared_vela.database_url) as connection:
        (segment,) = connection.execute(
            "SELECT segment_id FROM vela_ledger WHERE id = %s", (damaged.ledger_id(),)
        ).fetchone() or (0,)
        connection.execute(
            f"UPDATE vela_entry_{int(segment)} SET data = set_byte(data, octet_length(data) - 1, 0)"
            " WHERE ledger_id = %s AND entry_id = %s",
            (damaged.ledger_id(), damaged.entry_id()),
        )
    with_key = found(session, topic, "key=k&start=oldest")
    assert with_key[0]["id"] == f"{first.ledger_id()}:{first.entry_id()}"
    assert [each["trouble"].partition(":")[0] for each in with_key[:3]] == [
        "",
        "",
        "encrypted by the producer",
    ]
    assert {each["trouble"].partition(":")[0] for each in with_key[3:]} == {"one chunk of a message"}
    words = {
        f"{damaged.ledger_id()}:{damaged.entry_id()}": "The entry cannot be decoded",
        with_key[1]["id"]: "Not delivered before",
        with_key[2]["id"]: "encrypted the payload for finance",
        with_key[3]["id"]: "This is chunk 1 of",
    }
    for spot, expected in words.items():
        page = session.get(f"/t/persistent/public/default/{topic}/m/{spot}")
        assert (page.status, expected in page.text) == (200, True), page.text[:3000]


def test_the_command_line_finds_messages_in_all_partitions(
    shared_vela: VelaProcess, session: ConsoleSession
) -> None:
    topic = "found-parts"
    client = vela.Client(shared_vela.pulsar_url)

    def run(*arguments: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, "-m", "vela.cli", *arguments],
            env={
                "VELA_CONSOLE_URL": shared_vela.console_url,
                "VELA_USER": "admin",
                "VELA_PASSWORD": ADMIN_PASSWORD,
                "PYTHONPATH": ".",
                "PATH": "",
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    run("topics", "create", topic, "--partitions", "3", "--yes", "--json")
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(30):
        producer.send(b"%d" % number, partition_key=f"k{number}")
    client.close()
    everything = run("find", topic, "--from", "earliest", "--json")
    stored_ms = [each["append_ms"] for each in everything]
    assert stored_ms == sorted(stored_ms)
    assert {each["preview"] for each in everything} == {str(number) for number in range(30)}
    assert {each["partition"] for each in everything} == {0, 1, 2}
    (one,) = run("find", topic, "--key", "k17", "--json")
    assert one["preview"] == "17"
    newer = run("find", topic, "--from", one["id"], "--newer", "--json")
    # Messages of other partitions that were stored in the same millisecond may come before this message.
    assert one["id"] in [each["id"] for each in newer if each["append_ms"] == newer[0]["append_ms"]]
    export = session.get(f"/t/persistent/public/default/{topic}/messages/export?start=oldest&limit=3")
    lines = [json.loads(line) for line in export.text.splitlines()]
    assert [line["id"] for line in lines[:-1]] == [each["id"] for each in everything]
    assert lines[-1]["end"]["stopped_by"] == "end"
