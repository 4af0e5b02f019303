"""Messages in S3 under a running Vela: every way to read them, and what consumers see while S3 is in trouble."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pulsar
import pytest

import vela as client_of_vela
from pipeline.jobs import offload
from tests.support.api import act, ask, create_topic
from tests.support.offloading import Silent, job_request
from tests.support.s3_server import CREDENTIALS, S3Server, s3_server
from tests.support.vela import ADMIN_PASSWORD, VelaProcess, started_vela
from tests.support.waiting import wait_until

PATH = "persistent/public/default"
MESSAGES = 220  # they fill four ledgers, and a fifth stays open
KEYS = 30
RECEIVE_MS = 20_000
QUIET_MS = 300
SENT = [b"%d" % number for number in range(MESSAGES)]


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        with s3_server() as server:
            yield server


@pytest.fixture(scope="module")
def stored(vela_data: Path, server: S3Server) -> Iterator[VelaProcess]:
    """A Vela that offloads to the bucket and caches nothing."""
    settings = {
        **CREDENTIALS,
        "VELA_OFFLOAD_URL": server.url,
        "VELA_LEDGER_MAX_ENTRIES": "50",
        "VELA_LEDGER_MIN_AGE_S": "0",
        "VELA_TAIL_CACHE_BYTES": "0",
        "VELA_OFFLOAD_CACHE_BYTES": "0",
        "VELA_LIFETIME_CHECK_S": "1",
    }
    with started_vela(settings, data=vela_data) as process:
        yield process


@pytest.fixture(scope="module")
def client(stored: VelaProcess) -> Iterator[pulsar.Client]:
    client = pulsar.Client(stored.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    client.close()


def filled(vela: VelaProcess, server: S3Server, client: pulsar.Client, topic: str) -> list[pulsar.MessageId]:
    """Publish `SENT` with keys, and move all sealed ledgers into the bucket. Return the message ids."""
    producer = client.create_producer(topic, batching_enabled=False)
    ids = [producer.send(value, partition_key=f"k{number % KEYS}") for number, value in enumerate(SENT)]
    producer.close()
    moved = offload.run(job_request(vela.database_url, server.url, topic), Silent(), lambda: None)
    assert (moved["ledgers"], moved["attached"]) == (4, 4)
    return ids


@pytest.fixture(scope="module")
def prices(stored: VelaProcess, server: S3Server, client: pulsar.Client) -> list[pulsar.MessageId]:
    """The message ids of the topic `prices`, which the tests read in every way."""
    return filled(stored, server, client, "prices")


def received(consumer: Any, count: int) -> list[bytes]:
    found = []
    for _ in range(count):
        message = consumer.receive(RECEIVE_MS)
        consumer.acknowledge(message)
        found.append(message.data())
    return found


def got(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return bytes(answer.read())


def cli(vela: VelaProcess, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "vela.cli", *words],
        env={
            **os.environ,
            "VELA_CONSOLE_URL": vela.console_url,
            "VELA_USER": "admin",
            "VELA_PASSWORD": ADMIN_PASSWORD,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert not done.returncode, done.stderr
    return done.stdout


# -- reads ---------------------------------------------------------------------------------------------------------


def pulled(vela: VelaProcess, _ids: list[pulsar.MessageId]) -> None:
    answer = json.loads(got(f"{vela.http_url}/pull/v1/public/default/prices?offset=10&max_messages=30"))
    assert [base64.b64decode(each["payload"]) for each in answer["messages"]] == SENT[10:40]


def peeked(vela: VelaProcess, _ids: list[pulsar.MessageId]) -> None:
    _, answer = ask(vela, f"topics/{PATH}/prices/subscriptions/watch/peek?limit=3")
    assert [each["preview"] for each in answer["messages"]] == ["0", "1", "2"]
    assert got(f"{vela.http_url}/admin/v2/{PATH}/prices/subscription/watch/position/4") == b"3"


def found_by_id(vela: VelaProcess, ids: list[pulsar.MessageId]) -> None:
    ledger, entry = ids[123].ledger_id(), ids[123].entry_id()
    assert got(f"{vela.http_url}/admin/v2/{PATH}/prices/ledger/{ledger}/entry/{entry}") == b"123"
    status, answer = ask(vela, f"topics/{PATH}/prices/messages/{ledger}:{entry}")
    assert (status, answer["key"]) == (200, f"k{123 % KEYS}"), answer


def examined(vela: VelaProcess, ids: list[pulsar.MessageId]) -> None:
    wanted = "initialPosition=earliest&messagePosition=7"
    assert got(f"{vela.http_url}/admin/v2/{PATH}/prices/examinemessage?{wanted}") == b"6"
    shown = json.loads(cli(vela, "examine", "prices", "--position", "7", "--json"))
    assert f"{ids[6].ledger_id()}:{ids[6].entry_id()}" in json.dumps(shown)


def searched(vela: VelaProcess, ids: list[pulsar.MessageId]) -> None:
    _, answer = ask(vela, f"topics/{PATH}/prices/messages?start=oldest&text=17&limit=100")
    assert [each["preview"] for each in answer["messages"]] == [
        value.decode() for value in SENT if b"17" in value
    ]


READS: list[Callable[[VelaProcess, list[pulsar.MessageId]], None]] = [
    pulled,
    peeked,
    found_by_id,
    examined,
    searched,
]


@pytest.mark.parametrize("read", READS, ids=lambda each: each.__name__)
def test_every_door_reads_messages_in_the_bucket(
    read: Callable[[VelaProcess, list[pulsar.MessageId]], None],
    stored: VelaProcess,
    client: pulsar.Client,
    prices: list[pulsar.MessageId],
) -> None:
    watch = client.subscribe("prices", "watch", initial_position=pulsar.InitialPosition.Earliest)
    watch.close()
    read(stored, prices)


def test_compaction_reads_offloaded_messages(
    stored: VelaProcess, client: pulsar.Client, prices: list[pulsar.MessageId]
) -> None:
    cli(stored, "compact", "prices", "--yes")
    reader = client.create_reader("prices", pulsar.MessageId.earliest, is_read_compacted=True)
    assert [reader.read_next(RECEIVE_MS).data() for _ in range(KEYS)] == SENT[-KEYS:]
    reader.close()
    metrics = got(f"{stored.http_url}/metrics").decode()
    assert f'topic="persistent://public/default/prices"}} {MESSAGES - KEYS}\n' in metrics
    assert "pulsar_storage_offloaded_size{" in metrics


def test_a_consumer_reads_offloaded_messages_again_and_files_of_acked_ones_are_deleted(
    stored: VelaProcess, server: S3Server, client: pulsar.Client
) -> None:
    create_topic(stored, "trimmed", retention_ms="0", retention_bytes="0")
    consumer = client.subscribe("trimmed", "billing")
    filled(stored, server, client, "trimmed")
    before = len(server.files())
    assert [consumer.receive(RECEIVE_MS).data() for _ in range(150)] == SENT[:150]
    consumer.seek(pulsar.MessageId.earliest)
    assert received(consumer, MESSAGES) == SENT
    with psycopg.connect(stored.database_url, autocommit=True) as connection:

        def is_swept() -> bool:
            connection.execute("SELECT pg_notify('vela_lifetime', '')")
            return len(server.files()) == before - 4

        wait_until(is_swept, "the files' deletion", timeout_s=30, every_s=0.5)


def test_a_deleted_topic_leaves_no_file(stored: VelaProcess, server: S3Server, client: pulsar.Client) -> None:
    before = server.files()
    filled(stored, server, client, "doomed")
    assert len(server.files()) == len(before) + 4
    act(stored, "delete_topic", "doomed", force=True)
    with psycopg.connect(stored.database_url, autocommit=True) as connection:

        def is_swept() -> bool:
            connection.execute("SELECT pg_notify('vela_lifetime', '')")
            return server.files() == before

        wait_until(is_swept, "the files' deletion", timeout_s=30, every_s=0.5)


# -- trouble -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("stopped", "cannot read s3://history/vela/"),
        ("wrong keys", "ACCESS_DENIED"),
        ("bucket gone", "its bucket does not exist"),
    ],
)
def test_a_consumer_waits_while_s3_is_away_and_then_continues(
    stored: VelaProcess, server: S3Server, fault: str, words: str
) -> None:
    topic = f"trouble-{fault.replace(' ', '-')}"
    own = pulsar.Client(stored.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        filled(stored, server, own, topic)
        consumer = own.subscribe(
            topic, "billing", initial_position=pulsar.InitialPosition.Earliest, receiver_queue_size=10
        )
        seen = received(consumer, 5)
        if fault == "stopped":  # S3 stops in the middle of an answer
            server.fault = "cut"
            cuts = server.cuts
        else:
            server.fault = fault
        with suppress(pulsar.Timeout):
            while True:
                message = consumer.receive(QUIET_MS)
                consumer.acknowledge(message)
                seen.append(message.data())
        assert len(seen) < MESSAGES
        if fault == "stopped":
            wait_until(lambda: server.cuts > cuts, "a read that is cut")
            server.stop()
        error = wait_until(lambda: _unreadable(stored, topic), "the reason on the page", timeout_s=30)
        assert words in error
        fresh = own.create_producer(f"{topic}-fresh")  # other topics still work
        fresh.send(b"new")
        server.fault = ""
        server.start()
        seen += received(consumer, MESSAGES - len(seen))
        assert seen == SENT
        wait_until(lambda: not _unreadable(stored, topic), "the end of the finding")
    finally:
        server.fault = ""
        server.start()
        own.close()


def _unreadable(vela: VelaProcess, topic: str) -> str:
    """Return the error that the diagnosis shows, or "" if it shows none."""
    _, answer = ask(vela, f"topics/{PATH}/{topic}/subscriptions/billing/diagnosis")
    for finding in answer["findings"]:
        if finding["rule"] == "unreadable_log":
            return str(finding["evidence"][0]["value"])
    return ""


def test_velas_own_client_reads_offloaded_messages(
    stored: VelaProcess, prices: list[pulsar.MessageId]
) -> None:
    with client_of_vela.Client(stored.pulsar_url) as own:
        reader = own.create_reader("prices", client_of_vela.MessageId.earliest)
        assert [reader.read_next(RECEIVE_MS).data() for _ in SENT] == SENT
