"""Which messages a compaction keeps: the rule, against a plain model of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.compaction.facts import CompactionEntry, CompactionMessage, Key
from broker.core.compaction.latest import WHOLE, LatestByKey
from broker.core.position import Position

KEYS: tuple[Key | None, ...] = (None, "a", "b", "YQ==", b"a")
_messages = st.builds(CompactionMessage, key=st.sampled_from(KEYS), is_empty=st.booleans())
_batches = st.lists(_messages, max_size=4).map(tuple)  # an empty batch cannot be read
_logs = st.lists(_batches, max_size=12)

Place = tuple[Position, int]


def entries_of(batches: Sequence[tuple[CompactionMessage, ...]]) -> list[CompactionEntry]:
    """Return an entry for each batch, three entries to a ledger."""
    return [CompactionEntry(Position(7 + at // 3, at % 3), batch) for at, batch in enumerate(batches)]


def compacted(entries: Sequence[CompactionEntry], *, retain_keyless: bool = False) -> list[CompactionEntry]:
    """Run both passes and return the messages that stay, with None in the places of removed messages."""
    latest = LatestByKey(retain_keyless=retain_keyless)
    for entry in entries:
        latest.see(entry)
    result = []
    for entry in entries:
        kept = latest.kept(entry)
        if kept is WHOLE:
            result.append(entry)
        elif kept:
            messages = tuple(each if at in kept else None for at, each in enumerate(entry.messages))
            result.append(entry._replace(messages=messages))
    return result


def places(entries: Sequence[CompactionEntry]) -> dict[Place, CompactionMessage]:
    return {
        (entry.position, index): message
        for entry in entries
        for index, message in enumerate(entry.messages)
        if message is not None
    }


def latest_places(
    entries: Sequence[CompactionEntry], *, retain_keyless: bool
) -> dict[Place, CompactionMessage]:
    """Apply the rule in its plainest form: walk the log, and remember for each key where its latest value is."""
    values: dict[Key, Place] = {}
    keyless: list[Place] = []
    everything = places(entries)
    for place, message in everything.items():
        if message.key is None:
            keyless += [place] if retain_keyless else []
        elif message.is_empty:
            values.pop(message.key, None)
        else:
            values[message.key] = place
    return {place: everything[place] for place in sorted([*values.values(), *keyless])}


@given(batches=_logs, retain_keyless=st.booleans())
def test_the_latest_message_of_each_key_stays_in_its_place(
    batches: list[tuple[CompactionMessage, ...]], retain_keyless: bool
) -> None:
    entries = entries_of(batches)
    left = compacted(entries, retain_keyless=retain_keyless)
    assert places(left) == latest_places(entries, retain_keyless=retain_keyless)
    assert [entry.position for entry in left] == sorted(entry.position for entry in left)
    unreadable = [entry for entry in entries if not entry.messages]
    assert [entry for entry in left if not entry.messages] == unreadable


@given(batches=_logs, at=st.integers(0, 12), retain_keyless=st.booleans())
def test_compacting_in_two_steps_gives_the_same_as_one(
    batches: list[tuple[CompactionMessage, ...]], at: int, retain_keyless: bool
) -> None:
    entries = entries_of(batches)
    first = compacted(entries[:at], retain_keyless=retain_keyless)
    twice = compacted([*first, *entries[at:]], retain_keyless=retain_keyless)
    assert twice == compacted(entries, retain_keyless=retain_keyless)


@given(batches=_logs)
def test_compacting_the_result_again_changes_nothing(batches: list[tuple[CompactionMessage, ...]]) -> None:
    once = compacted(entries_of(batches))
    assert compacted(once) == once


def chunk(entry_id: int, uuid: str, *, last: bool = False, key: Key | None = "a") -> CompactionEntry:
    return CompactionEntry(Position(1, entry_id), (CompactionMessage(key, False),), uuid, last)


def value(entry_id: int, key: Key = "a", *, is_empty: bool = False) -> CompactionEntry:
    return CompactionEntry(Position(1, entry_id), (CompactionMessage(key, is_empty),))


@pytest.mark.parametrize(
    ("log", "left"),
    [
        ([value(0), chunk(1, "x"), chunk(2, "x", last=True)], [1, 2]),
        ([chunk(0, "x"), chunk(1, "x", last=True), value(2)], [2]),
        ([chunk(0, "x"), chunk(1, "x", last=True), value(2, is_empty=True)], []),
        ([value(0), chunk(1, "x")], [0, 1]),  # the rest of the large message may follow
        ([chunk(0, "x"), chunk(1, "y"), chunk(2, "x", last=True), chunk(3, "y", last=True)], [1, 3]),
        ([chunk(0, "x", key=None), chunk(1, "x", last=True, key=None)], []),
    ],
    ids=["latest", "replaced", "deleted", "unfinished", "interleaved", "keyless"],
)
def test_the_chunks_of_a_large_message_stay_or_go_together(
    log: list[CompactionEntry], left: list[int]
) -> None:
    assert [entry.position.entry_id for entry in compacted(log)] == left


def test_text_and_binary_keys_are_never_the_same_key() -> None:
    latest = LatestByKey(retain_keyless=False)
    latest.see(value(0, "a"))
    latest.see(value(1, b"a"))
    assert len(latest) == 2
    latest.see(value(2, b"a", is_empty=True))
    assert (latest.kept(value(0, "a")), latest.kept(value(1, b"a"))) == (WHOLE, ())
