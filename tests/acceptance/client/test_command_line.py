"""The real command `vela` against a whole Vela. Starting it is slow, so each test does much with few starts."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.client.publishing import publish_entries
from tests.support.ports import free_ports
from tests.support.vela import ADMIN_PASSWORD, VelaProcess
from tests.support.waiting import wait_until
from tests.unit.client.entries import compose, metadata, single
from vela.aio.client import Client

Run = Callable[..., subprocess.CompletedProcess[str]]

VELA = [sys.executable, "-m", "vela.cli"]
LINES = [f"line {number}, käse \x1b" for number in range(3000)]


@pytest.fixture
def environment(shared_vela: VelaProcess) -> dict[str, str]:
    """The environment variables that a user exports."""
    return {
        **os.environ,
        "VELA_URL": shared_vela.websocket_url,
        "VELA_CONSOLE_URL": shared_vela.console_url,
        "VELA_USER": "admin",
        "VELA_PASSWORD": ADMIN_PASSWORD,
        "PYTHONPATH": os.getcwd(),
    }


@pytest.fixture
def vela(environment: dict[str, str]) -> Run:
    """Run one command line to its end."""

    def run(*arguments: str, typed: str = "", **changed: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*VELA, *arguments],
            env={**environment, **changed},
            input=typed,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def documents(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_file_is_published_consumed_and_consumed_again_after_a_reset(
    vela: Run, topic: str, tmp_path: Path, shared_vela: VelaProcess
) -> None:
    source = tmp_path / "lines"
    source.write_text("\n".join(LINES), encoding="utf-8")
    (sent,) = documents(
        vela("produce", topic, "-f", str(source), "-k", "k", "--compression", "zstd", "--json")
    )
    assert (sent["messages"], sent["bytes"]) == (3000, len("".join(LINES).encode()))
    read = vela(
        "consume", topic, "s", "--start", "earliest", "--count", "2000", VELA_URL=shared_vela.pulsar_url
    )
    assert (read.returncode, read.stdout) == (0, "".join(f"{line}\n" for line in LINES[:2000]))

    (found,) = documents(vela("subscriptions", "list", topic, "--json"))
    assert (found["name"], found["backlog_messages"], found["type"]) == ("s", 1000, "Shared")
    (stats,) = documents(vela("stats", topic, "--json", "--once"))
    assert stats["subscriptions"][0]["backlog_messages"] == 1000
    (peeked,) = documents(vela("peek", topic, "s", "-n", "1", "--json"))
    assert (peeked["preview"], peeked["key"]) == (LINES[2000].encode()[:64].hex(" "), "k")

    refused = vela("reset", topic, "s", "--earliest", typed="no\n")
    assert (refused.returncode, "2,000 messages are delivered again" in refused.stdout) == (4, True)
    (act,) = documents(vela("reset", topic, "s", "--earliest", "--yes", "--json"))
    assert act["result"]["backlog_messages"] == 3000
    undo = vela("acts", "undo", str(act["id"]), typed="s\n")
    assert (undo.returncode, "1,000 messages wait now" in undo.stdout) == (0, True), undo.stderr
    rest = documents(vela("consume", topic, "s", "--count", "1000", "--json"))
    assert [each["payload"] for each in rest] == LINES[2000:]
    assert all(each["payload_base64"] is None and each["key"] == "k" for each in rest)


def test_messages_in_a_partition_are_shown_without_a_consumer(vela: Run, topic: str) -> None:
    assert vela("topics", "create", topic, "--partitions", "2", "--yes").returncode == 0
    made = vela("subscriptions", "create", topic, "s", "--earliest", "--yes")
    assert made.returncode == 0, made.stderr
    assert vela("produce", f"{topic}-partition-0", "a", "b", "c").returncode == 0
    (stats,) = documents(vela("stats", topic, "--json", "--once"))
    (row,) = stats["subscriptions"]
    assert row["backlog_messages"] == 3
    assert row["standing"]["state"] in ("unknown", "watching")  # unknown until the broker's first report
    assert row["backlog_bytes"] > 0
    listed = documents(vela("subscriptions", "list", topic, "--json"))
    assert [(each["partition"], each["backlog_messages"]) for each in listed] == [(0, 3), (1, 0)]


def test_unacked_messages_are_redelivered_and_a_seek_moves_the_cursor_anywhere(vela: Run, topic: str) -> None:
    ids = vela("produce", topic, "a", "b", "c", "--no-batching", "--ids").stdout.split()
    first = vela("consume", topic, "s", "--start", "earliest", "--count", "2", "--no-ack", "--format", "hex")
    assert first.stdout.split() == ["61", "62"]
    again = documents(vela("consume", topic, "s", "--count", "3", "--json"))
    assert [(each["payload"], each["id"]) for each in again] == list(zip("abc", ids, strict=True))
    sought = vela("consume", topic, "s", "--seek", ids[1], "--count", "2", "--format", "raw")
    assert sought.stdout == "bc"
    assert vela("skip", topic, "s", "--id", f"{ids[0]}:7", "--yes").returncode == 3
    nothing = vela("consume", topic, "s", "--timeout", "100ms")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (3, "", "vela: 0 messages arrived\n")


def test_a_seek_to_a_message_that_is_not_there_moves_nothing(vela: Run, topic: str) -> None:
    ids = vela("produce", topic, "a", "b", "c", "--no-batching", "--ids").stdout.split()
    (batched,) = {each.rsplit(":", 2)[0] for each in vela("produce", topic, "d", "e", "--ids").stdout.split()}
    (elsewhere,) = vela("produce", f"{topic}-other", "x", "--no-batching", "--ids").stdout.split()
    ledger = ids[0].partition(":")[0]
    made = vela("subscriptions", "create", topic, "s", "--id", ids[1], "--yes")
    assert made.returncode == 0, made.stderr
    for wrong, says in (
        ("999999:1", "the topic stores no message at or after this id"),
        (f"{ledger}:999", "the topic stores no message at or after this id"),
        ("0:1", f"the next stored message is {ids[0]}"),
        (elsewhere, "nothing was moved"),
        (f"{ids[1]}:4:0", f"the next stored message is {ids[1]}"),
        (f"{batched}:7", "the topic stores no message at or after this id"),
    ):
        refused = vela("consume", topic, "s", "--seek", wrong, "-n", "1")
        assert (refused.returncode, f"there is no message {wrong.replace(':7', ':-1:7')} in " in refused.stderr,
                says in refused.stderr) == (3, True, True), (wrong, refused.stderr)  # fmt: skip
    assert vela("consume", f"{topic}-typo", "s", "--seek", ids[0], "-n", "1").returncode == 3
    assert vela("topics", "show", f"{topic}-typo").returncode == 3
    assert vela("consume", topic, "s", "-n", "4").stdout == "b\nc\nd\ne\n"
    last = vela("consume", topic, "s", "--seek", f"{batched}:1", "-n", "1")
    assert (last.stdout, last.returncode) == ("e\n", 0)


def test_on_a_partitioned_topic_a_seek_names_the_partition(vela: Run, topic: str) -> None:
    assert vela("topics", "create", topic, "--partitions", "2", "--yes").returncode == 0
    (there,) = vela("produce", f"{topic}-partition-1", "a", "--no-batching", "--ids").stdout.split()
    assert vela("consume", topic, "s", "--seek", f"{there}:1:0", "-n", "1").stdout == "a\n"
    for wrong, exit_code in ((there, 2), (f"{there}:0:0", 3), (f"{there}:2:0", 3)):
        assert vela("consume", topic, "s", "--seek", wrong, "-n", "1").returncode == exit_code, wrong


def test_a_topic_is_read_from_any_place_and_no_subscription_is_left(vela: Run, topic: str) -> None:
    ids = vela("produce", topic, "a", "b", "c", "--no-batching", "--ids").stdout.split()
    assert vela("read", topic).stdout == "a\nb\nc\n"
    assert [each["payload"] for each in documents(vela("read", topic, "--from", ids[1], "--json"))] == [
        "b",
        "c",
    ]
    assert vela("read", topic, "--from", "2020-01-01", "--count", "2").stdout == "a\nb\n"
    end = vela("read", topic, "--from", "latest", "--follow", "--timeout", "100ms")
    assert (end.returncode, end.stdout) == (3, "")
    assert documents(vela("subscriptions", "list", topic, "--json")) == []
    assert vela("read", f"{topic}-typo").returncode == 3
    assert vela("topics", "show", f"{topic}-typo").returncode == 3


def test_entries_that_cannot_be_decoded_are_named(vela: Run, topic: str, shared_vela: VelaProcess) -> None:
    sound = (single(b"sound"), 1)
    odd = (compose(metadata(compression=9, uncompressed_size=1), b"x"), 1)

    async def publish() -> None:
        async with Client(shared_vela.pulsar_url) as client:
            await publish_entries(client, topic, sound, odd, odd, odd, sound, odd)

    asyncio.run(publish())
    done = vela("read", topic)
    assert (done.returncode, done.stdout) == (1, "sound\nsound\n")
    left_out = [line for line in done.stderr.splitlines() if "DECOMPRESSION_ERROR" in line]
    assert [re.findall(r"entry \d+:(\d+) ", line) for line in left_out] == [["1"], ["2"], ["3"], ["5"]]
    assert "unknown compression 9" in left_out[0]
    assert "4 entries could not be decoded and are left out" in done.stderr.splitlines()[-1]
    as_json = vela("read", topic, "--json").stderr.splitlines()[-1]
    assert (json.loads(as_json)["code"], json.loads(as_json)["entries"]) == ("EntriesLeftOut", 4)


def test_messages_sent_before_an_error_are_stored_and_reported(vela: Run, topic: str) -> None:
    lines = '{"payload": "a"}\n{"payload": "b", "event_ms": -1}\n'
    wrong = vela("produce", topic, "--as", "json", typed=lines)
    assert (wrong.returncode, "line 2, has an invalid member 'event_ms'" in wrong.stderr) == (2, True), (
        wrong.stderr
    )
    large = vela("produce", topic, typed=f"b\n{'x' * 6_000_000}\n")
    assert (large.returncode, "add --chunking --no-batching" in large.stderr) == (1, True), large.stderr
    assert ["1 message stored" in done.stderr for done in (wrong, large)] == [True, True]
    assert vela("read", topic).stdout == "a\nb\n"


def test_a_benchmark_creates_and_deletes_its_topic(vela: Run) -> None:
    (figures,) = documents(vela("bench", "--messages", "2000", "--rate", "200", "--seconds", "0.2", "--json"))
    assert figures["published_per_s"] > 0
    assert figures["consumed_per_s"] > 0
    latency = figures["latency"]
    assert latency["messages"] == 40
    for times in (latency["publish_ms"], latency["end_to_end_ms"]):
        assert 0 < times["p50"] <= times["p95"] <= times["p99"] <= times["max"]
    assert vela("topics", "show", figures["topic"]).returncode == 3


def test_json_printed_for_one_topic_can_be_published_to_another(
    vela: Run, topic: str, environment: dict[str, str]
) -> None:
    lines = [
        {"payload": "täxt", "key": "a", "properties": {"n": "1"}, "event_ms": 5},
        {"payload_base64": "/w==", "ordering_key": "o"},
        {"payload": {"order": 7}},
    ]
    vela("produce", topic, "--as", "json", typed="\n".join(map(json.dumps, lines)))
    printed = vela("consume", topic, "s", "--start", "earliest", "--count", "3", "--json").stdout
    vela("produce", f"{topic}-copy", "--as", "json", "--no-batching", typed=printed)
    copied = documents(vela("consume", f"{topic}-copy", "s", "--start", "earliest", "--count", "3", "--json"))
    kept = ("payload", "payload_base64", "key", "ordering_key", "properties", "event_ms")
    assert [[each[name] for name in kept] for each in copied] == [
        ["täxt", None, "a", None, {"n": "1"}, 5],
        [None, "/w==", None, "o", {}, 0],
        ['{"order": 7}', None, None, None, {}, 0],
    ]


def test_an_interrupted_command_reports_its_progress_and_leaves_nothing_behind(
    vela: Run, topic: str, environment: dict[str, str], shared_vela: VelaProcess
) -> None:
    consumer = subprocess.Popen(
        [*VELA, "consume", topic, "s", "--start", "earliest"],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    producer = subprocess.Popen(
        [*VELA, "produce", topic],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert producer.stdin is not None
    assert consumer.stdout is not None
    producer.stdin.write("one\ntwo\nhalf a line")
    producer.stdin.flush()
    assert [consumer.stdout.readline() for _ in range(2)] == ["one\n", "two\n"]
    for process, says in ((producer, "2 messages stored"), (consumer, "2 messages consumed")):
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=10)
        assert (process.returncode, says in said, "Traceback" in said) == (130, True, False), said
    wait_until(
        lambda: documents(vela("subscriptions", "show", topic, "s", "--json"))[0]["connected"] == [],
        "the consumer to be gone",
    )
    assert vela("consume", topic, "s", "--timeout", "100ms").returncode == 3


def test_a_closed_output_pipe_ends_the_command_without_a_traceback(
    topic: str, environment: dict[str, str], vela: Run
) -> None:
    vela("produce", topic, typed="\n".join(LINES))
    line = f"{' '.join(VELA)} consume {topic} s --start earliest | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.splitlines() == [LINES[0], "141"]
    assert "Traceback" not in done.stderr


def test_topics_are_created_and_deleted(vela: Run, topic: str) -> None:
    name = topic.rpartition("/")[2] + "-made"
    assert vela("topics", "create", name, "--partitions", "2", "--yes").returncode == 0
    vela("produce", f"{name}-partition-1", "x")
    made = vela("subscriptions", "create", f"{name}-partition-1", "s", "--earliest", "--yes")
    assert (made.returncode, "1 message waits for it" in made.stdout) == (0, True), made.stderr
    assert vela("clear", name, "s", "--yes").returncode == 0
    assert vela("subscriptions", "create", name, "new", "--yes").returncode == 0
    cursors = documents(vela("subscriptions", "list", name, "--json"))
    assert sorted(row["topic"][-1] for row in cursors if row["name"] == "new") == ["0", "1"]
    assert vela("topics", "delete", name, "--force", "--yes").returncode == 0
    assert vela("topics", "show", name).returncode == 3


@pytest.mark.parametrize(
    ("arguments", "changed", "exit_code", "says"),
    [
        (["produce", "x", "y"], {"VELA_URL": "ws://127.0.0.1:⟨free⟩"}, 1, "start the broker, or set VELA_URL or --url"),
        (["consume", "x", "s"], {"VELA_URL": "⟨console⟩"}, 1, "not the console's"),
        (["consume", "x", "s\udcff"], {}, 2, "is not UTF-8"),
        (["produce", "x", "y"], {"VELA_URL": "localhost"}, 2, "ws://host:8080 or pulsar://host:6650"),
        (["topics", "list"], {"VELA_CONSOLE_URL": "http://127.0.0.1:⟨free⟩"}, 1, "no console answers at"),
        (["topics", "list"], {"VELA_CONSOLE_URL": "⟨broker⟩"}, 1, "is not Vela's console"),
        (["topics", "list"], {"VELA_PASSWORD": "wrong"}, 5, "user 'admin' was refused"),
        (["stats", "no-such-topic", "--once"], {}, 3, "there is no topic persistent://public/default/no-such-topic"),
        (["clear", "no-such-topic", "s", "--yes"], {}, 3, "there is no subscription 's'"),
    ],
)  # fmt: skip
def test_every_error_is_printed_as_one_sentence(
    arguments: list[str],
    changed: dict[str, str],
    exit_code: int,
    says: str,
    vela: Run,
    shared_vela: VelaProcess,
) -> None:
    (free,) = free_ports(1)
    known = {"⟨free⟩": str(free), "⟨console⟩": shared_vela.console_url, "⟨broker⟩": shared_vela.http_url}
    for word, value in known.items():
        changed = {name: text.replace(word, value) for name, text in changed.items()}
    done = vela(*arguments, **changed)
    assert (done.returncode, done.stdout) == (exit_code, ""), done.stderr
    assert (says in done.stderr, done.stderr.count("\n"), done.stderr[:6]) == (True, 1, "vela: "), done.stderr


def test_bash_completes_a_topic_and_its_subscription(
    vela: Run, topic: str, environment: dict[str, str], tmp_path: Path
) -> None:
    name = topic.rpartition("/")[2] + "-completed"
    vela("produce", name, "x")
    vela("subscriptions", "create", name, "billing", "--yes")
    program = tmp_path / "vela"
    program.write_text(f'#!/bin/sh\nexec {" ".join(VELA)} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    script = f"""
eval "$(vela completion bash)"
COMP_WORDS=(vela reset {name[:-2]}); COMP_CWORD=2; _vela_completion vela; echo "${{COMPREPLY[@]}}"
COMPREPLY=(); COMP_WORDS=(vela reset {name} b); COMP_CWORD=3; _vela_completion vela; echo "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "-c", script],
        env={**environment, "PATH": f"{tmp_path}:{environment['PATH']}"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == [name, "billing"], done.stderr
