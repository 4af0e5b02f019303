"""What a pull consumer refuses before it sends anything, and where it keeps offsets."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from vela import errors
from vela.aio.pull.consumer import PullConsumer
from vela.aio.pull.offsets import FileOffsets, MemoryOffsets

URL = "http://localhost:8080"
TOPIC = "persistent://public/default/t"


@pytest.mark.row("S3.19")
@pytest.mark.parametrize("hold_ms", [30_000, 40_000])
def test_a_parking_time_longer_than_the_request_timeout_is_refused(hold_ms: int) -> None:
    with pytest.raises(errors.InvalidConfiguration, match=r"request_timeout_ms .*hold_ms"):
        PullConsumer(URL, "t", "g", hold_ms=hold_ms)
    PullConsumer(URL, "t", "g", hold_ms=hold_ms, request_timeout_ms=hold_ms + 1)


@pytest.mark.row("S3.19")
@pytest.mark.parametrize("timeout_ms", [15_000, 14_999, 0])
def test_a_request_timeout_within_the_parking_time_is_refused(timeout_ms: int) -> None:
    with pytest.raises(errors.InvalidConfiguration, match="request_timeout_ms"):
        PullConsumer(URL, "t", "g", request_timeout_ms=timeout_ms, message_listener=print)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_messages": 0}, "max_messages"),
        ({"max_messages": 1025}, "max_messages"),
        ({"hold_ms": 0}, "hold_ms"),
        ({"hold_ms": 600_001, "request_timeout_ms": 700_000}, "hold_ms"),
        ({"pull_interval_ms": -1}, "pull_interval_ms"),
        ({"commit_interval_ms": 0}, "commit_interval_ms"),
        ({"listener_concurrency": 0}, "listener_concurrency"),
        ({"negative_ack_redelivery_delay_ms": -1}, "negative_ack_redelivery_delay_ms"),
        ({"max_reconsume_times": -1}, "max_reconsume_times"),
        ({"max_messages": "5"}, "max_messages"),
        ({"hold_ms": 1.5}, "hold_ms"),
        ({"request_timeout_ms": None}, "request_timeout_ms"),
        ({"queues": 3}, "queues"),
        ({"queues": ["0"]}, "queues"),
        ({"tags": None}, "tags"),
        ({"property_filter": 3}, "property_filter"),
        ({"queues": []}, "queues"),
        ({"queues": [-1]}, "queues"),
        ({"queues": [1, 1]}, "queues"),
        ({"tags": "A ||"}, "tags"),
        ({"property_filter": "a like b"}, "filter"),
        ({"subscription_name": None}, "subscription_name"),
        ({"offset_store": MemoryOffsets()}, "offset_store"),
    ],
)
def test_wrong_settings_are_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(errors.InvalidConfiguration, match=named):
        PullConsumer(URL, "t", **{"subscription_name": "g", **options})


@pytest.mark.parametrize(
    "url",
    [
        "pulsar://localhost:6650",
        "localhost:8080",
        "http://",
        "http://host:x",
        "http://h?a=b",
        "http://[",
        "",
        "http://a..b",
        "http://a\0b",
    ],
)
def test_a_url_that_cannot_be_pulled_from_is_refused(url: str) -> None:
    with pytest.raises(errors.InvalidUrl, match="http://host:8080"):
        PullConsumer(url, "t", "g")


@pytest.mark.parametrize("topic", ["t-partition-1", "non-persistent://a/b/c", "", "x://y"])
def test_a_topic_that_cannot_be_pulled_is_refused(topic: str) -> None:
    with pytest.raises(errors.InvalidTopicName):
        PullConsumer(URL, topic, "g")


async def test_a_file_of_offsets_survives_and_tells_topics_apart(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    store = FileOffsets(path)
    assert await store.load(TOPIC, 0) is None
    await store.save(TOPIC, {0: 5, 1: 7})
    await store.save("other", {0: 1})
    await store.save(TOPIC, {0: 6})
    again = FileOffsets(path)
    assert [await again.load(TOPIC, queue) for queue in (0, 1, 2)] == [6, 7, None]
    assert await again.load("other", 0) == 1
    assert os.listdir(tmp_path) == ["offsets.json"]


async def test_a_save_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new file is written beside the old file. It is on the disk before it takes the old file's name."""
    path = tmp_path / "offsets.json"
    store = FileOffsets(path)
    await store.save(TOPIC, {0: 5})
    calls: list[str] = []

    def full(descriptor: int) -> None:
        calls.append("fsync")
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="the disk is full"):
        await store.save(TOPIC, {0: 6})
    assert calls == ["fsync"]
    assert json.loads(path.read_bytes()) == {TOPIC: {"0": 5}}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"t": 5}', '{"t": {"0": "five"}}'])
async def test_a_file_without_offsets_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "offsets.json"
    path.write_text(text)
    for call in (FileOffsets(path).load(TOPIC, 0), FileOffsets(path).save(TOPIC, {0: 1})):
        with pytest.raises(errors.InvalidConfiguration, match=r"offsets\.json"):
            await call
    assert path.read_text() == text
