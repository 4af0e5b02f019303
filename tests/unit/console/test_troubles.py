"""Troubles are found by the age of heartbeats, measured by the database's clock, and described in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from console.words.troubles import WORDS, Signs, Trouble, effects_of, health_of, troubles_of

NOW_MS = 1_800_000_000_000
WELL = Signs(
    now_ms=NOW_MS,
    host="shop-1",
    pid=77,
    seen_ms=NOW_MS - 1000,
    stopped_ms=None,
    beat_ms=NOW_MS - 1000,
    worker_ms=NOW_MS - 1000,
)


def troubles(signs: Signs, *, tick_ms: int = 1000) -> dict[Trouble, int | None]:
    return troubles_of(signs, tick_ms=tick_ms)


def test_fresh_heartbeats_are_no_trouble() -> None:
    assert troubles(WELL) == {}
    assert effects_of({}) == []


def test_a_broker_is_silent_after_five_seconds() -> None:
    assert troubles(replace(WELL, seen_ms=NOW_MS - 5000)) == {}
    found = troubles(replace(WELL, seen_ms=NOW_MS - 5001))
    assert found == {Trouble.BROKER_SILENT: NOW_MS - 5001}
    assert effects_of(found) == ["unsure"]


def test_a_broker_that_was_stopped_is_not_called_silent() -> None:
    stopped = replace(WELL, seen_ms=NOW_MS - 90_000, stopped_ms=NOW_MS - 90_000)
    assert troubles(stopped) == {Trouble.BROKER_STOPPED: NOW_MS - 90_000}
    assert troubles(replace(WELL, seen_ms=None)) == {Trouble.NO_BROKER: None}


def test_the_silence_of_beat_explains_that_of_the_worker() -> None:
    both = replace(WELL, beat_ms=NOW_MS - 6000, worker_ms=NOW_MS - 6000)
    assert troubles(both) == {Trouble.BEAT: NOW_MS - 6000}
    assert troubles(replace(WELL, worker_ms=None)) == {Trouble.WORKER: None}
    assert effects_of(troubles(both)) == []


@pytest.mark.parametrize(("age_ms", "is_silent"), [(49_999, False), (50_001, True)])
def test_beat_may_miss_five_ticks(age_ms: int, is_silent: bool) -> None:
    found = troubles(replace(WELL, beat_ms=NOW_MS - age_ms), tick_ms=10_000)
    assert (Trouble.BEAT in found) == is_silent


def test_every_trouble_has_its_sentence() -> None:
    assert WORDS.keys() == set(Trouble)
    assert len({words.title for words in WORDS.values()}) == len(Trouble)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ["runs good", "ticks good", "ticks good"]),
        ({"seen_ms": None}, ["never started bad", "ticks good", "ticks good"]),
        ({"seen_ms": 1}, ["silent bad", "ticks good", "ticks good"]),
        ({"stopped_ms": 1}, ["stopped bad", "ticks good", "ticks good"]),
        ({"beat_ms": 1, "worker_ms": 1}, ["runs good", "silent warn", "unknown calm"]),
        ({"worker_ms": 1}, ["runs good", "ticks good", "silent warn"]),
    ],
)
def test_each_process_has_a_word(changed: dict[str, Any], words: list[str]) -> None:
    health = health_of(troubles(replace(WELL, **changed)))
    assert [f"{each.word} {each.tone}" for each in health] == words
    assert [bool(each.runbook) for each in health] == [each.tone != "good" for each in health]
