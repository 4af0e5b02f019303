"""For every kind that moves a cursor, on any cursor: the preview is the effect, and undo is exact."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.acts.kinds.cursors.change import Target, preview
from broker.acts.kinds.cursors.cursor_kind import CursorKind
from broker.acts.kinds.parameters import ActInvalid
from broker.acts.kinds.registry import KINDS
from broker.core.cursor.cursor import Cursor
from broker.core.position import EARLIEST, Position
from broker.core.topic_name import TopicName
from broker.storage.acts.acts import recorded_acks
from broker.storage.cursors.chunk_codec import encode_overlay
from tests.unit.core.logs import Log
from vela.wire.ack_set import full

Message = tuple[Position, int]
NOW_MS = 1_000_000
# `send_to_dead_letters` is left out, because it moves the cursor as skip_one does.
MOVERS = sorted(
    name
    for name, kind in KINDS.items()
    if isinstance(kind, CursorKind) and name not in ("undo", "send_to_dead_letters")
)


class Shop:
    """The parts of a topic and a subscription that acts need. The log has one entry for each second before NOW_MS."""

    def __init__(self, data: st.DataObject) -> None:
        self.log = Log()
        for _ in range(data.draw(st.integers(0, 3))):
            self.log.publish_all(*data.draw(st.lists(st.integers(1, 4), max_size=6)))
            if data.draw(st.booleans()):
                self.log.roll(1)
        self.cursor = Cursor.starting_at(self.log.ledgers, self.log.index, EARLIEST)
        other = Cursor.starting_at(self.log.ledgers, self.log.index, EARLIEST)
        self.acked: set[Message] = set()
        if self.positions:
            other.reset_to(data.draw(st.sampled_from(self.positions)))
            self.ack_some(data)
        self.topic: Any = SimpleNamespace(
            log=self.log,
            name=TopicName.parse("t"),
            reader=SimpleNamespace(position_at_time=self.position_at_time, read_chosen=self.read_chosen),
            subscriptions={"other": SimpleNamespace(cursor=other, place=other.read_from)},
            compacted=SimpleNamespace(first_since=self.first_since),
        )
        self.subscription: Any = SimpleNamespace(log=self.log, reader=self.topic.reader, cursor=self.cursor)

    async def own_topic(self) -> Any:
        return self.topic

    async def first_since(self, _time_ms: int) -> None:
        return None

    @property
    def positions(self) -> list[Position]:
        return self.log.positions()

    def everything(self) -> set[Message]:
        return {(p, i) for p, size in self.log.sizes.items() for i in range(size)}

    def acked_now(self) -> set[Message]:
        found = set()
        for position, size in self.log.sizes.items():
            left = self.cursor.remaining_of(position)
            found |= {
                (position, i) for i in range(size) if not (full(size) if left is None else left) >> i & 1
            }
        return found

    def ack_some(self, data: st.DataObject) -> set[Message]:
        """Ack random messages, as consumers do, and return them."""
        done: set[Message] = set()
        for position in data.draw(st.lists(st.sampled_from(self.positions), max_size=6)):
            part = data.draw(st.none() | st.integers(0, 15))
            self.cursor.ack(position, part)
            size = self.log.sizes[position]
            done |= {(position, i) for i in range(size) if part is None or not part >> i & 1}
        return done

    async def position_at_time(self, time_ms: int) -> Position:
        for at, position in enumerate(self.positions):
            if NOW_MS - 1000 * (len(self.positions) - at) >= time_ms:
                return position
        return self.log.ledgers.end()

    async def read_chosen(self, positions: list[Position]) -> list[object]:
        """Return nothing, since none of the messages is a chunk."""
        return []


def parameters(data: st.DataObject, kind: str, shop: Shop) -> dict[str, Any]:
    """Return parameters that make sense for this kind of act."""
    number = data.draw(st.integers(1, 15))
    time_ms = NOW_MS - data.draw(st.integers(0, 15_000))
    ids = [str(p) for p in shop.positions] + [
        f"{p}:-1:{i}" for p, size in shop.log.sizes.items() for i in range(size)
    ]
    an_id = data.draw(st.sampled_from(ids)) if ids else None
    choices: dict[str, list[dict[str, Any]]] = {
        "skip": [{"messages": number}],
        "skip_entries": [{"entries": number}],
        "clear": [{}],
        "skip_one": [{"id": an_id}],
        "expire": [{"to": "time", "time_ms": time_ms}, {"to": "older", "older_ms": 1000 * number}],
        "reset": [
            {"to": "earliest"},
            {"to": "latest"},
            {"to": "time", "time_ms": time_ms},
            {"to": "back_time", "back_ms": 1000 * number},
            {"to": "shift", "messages": data.draw(st.integers(-15, 15))},
            {"to": "like", "like": "other"},
        ],
    }
    if an_id is not None:
        choices["expire"].append({"to": "id", "id": an_id})
        choices["reset"].append({"to": "id", "id": an_id, "inclusive": data.draw(st.booleans())})
    return data.draw(st.sampled_from(choices[kind]))


def prepared(kind: str, data: st.DataObject) -> tuple[Shop, Any] | None:
    """Return a shop and the change that the act would make, or None when there is nothing for it to do."""
    shop = Shop(data)
    if kind == "skip_one" and not shop.positions:
        return None
    mover: Any = KINDS[kind]
    context: Any = SimpleNamespace(
        topic=shop.own_topic, clock=SimpleNamespace(now_ms=lambda: NOW_MS), pool=None
    )
    try:
        change = asyncio.run(mover.find(context, shop.subscription, mover.read(parameters(data, kind, shop))))
    except ActInvalid:
        if kind != "skip_one":  # skip_one refuses a message that is acknowledged
            raise
        return None
    return shop, Target.from_json(change.pinned).as_change()  # applying runs the change that the plan stored


@pytest.mark.row("I5")
@pytest.mark.parametrize("kind", MOVERS)
@given(data=st.data())
@settings(max_examples=120, deadline=None)
def test_the_preview_of_an_act_is_its_effect(kind: str, data: st.DataObject) -> None:
    if (found := prepared(kind, data)) is None:
        return
    shop, change = found
    before = shop.acked_now()
    partly = {
        p
        for p, size in shop.log.sizes.items()
        if (left := shop.cursor.remaining_of(p)) is not None and 0 < left != full(size)
    }
    move = preview(shop.subscription, change.run)
    assert shop.acked_now() == before, "a preview changes nothing"
    change.run(shop.cursor)
    after = shop.acked_now()
    assert move.replayed == len(before - after)
    assert move.skipped == len(after - before)
    assert move.mark_delete_after == shop.cursor.mark_delete
    assert move.backlog_after == shop.cursor.backlog_messages == len(shop.everything() - after)
    assert shop.cursor.recount() == shop.cursor.totals
    assert move.partly_acked_forgotten == sum(
        all(member not in after for member in shop.everything() if member[0] == p) for p in partly
    )
    if kind != "reset":
        assert move.replayed == 0


@pytest.mark.row("I4")
@pytest.mark.parametrize("kind", MOVERS)
@given(data=st.data(), restarts=st.booleans())
@settings(max_examples=120, deadline=None)
def test_undo_restores_exactly_and_keeps_acks_made_since(
    kind: str, data: st.DataObject, restarts: bool
) -> None:
    if (found := prepared(kind, data)) is None:
        return
    shop, change = found
    cursor, before, snapshot = shop.cursor, shop.acked_now(), shop.cursor.snapshot()
    change.run(cursor)
    inside = change.inside(cursor)
    act_mark_delete, passed = cursor.mark_delete, shop.acked_now()
    cursor.start_undo_overlay(cursor.overlay_since(snapshot))
    since = shop.ack_some(data) if shop.positions else set()
    overlay = cursor.undo_overlay()
    assert overlay is not None
    if restarts:  # only the part that the act's row stores is left
        overlay = recorded_acks(encode_overlay(overlay), {"after": str(act_mark_delete)})
    # If the act took part of a batch, an ack of that part looks like an ack of the rest (see cursor/undo.py).
    of_the_act = {m for m in passed if inside is not None and inside[1] and m[0] == inside[0]} - before
    preview_of_undo = preview(shop.subscription, lambda c: c.undo(snapshot, act_mark_delete, overlay))
    now = shop.acked_now()
    cursor.undo(snapshot, act_mark_delete, overlay)
    assert shop.acked_now() == before | (since - of_the_act)
    assert preview_of_undo.replayed == len(now - shop.acked_now())
    assert preview_of_undo.skipped == len(shop.acked_now() - now)
    assert cursor.recount() == cursor.totals


def test_a_batch_partly_acked_counts_as_forgotten_when_it_comes_whole_again() -> None:
    """The log has more partly acked batches than the console lists."""
    log = Log()
    positions = log.publish_all(*[2] * 1500)
    cursor = Cursor.starting_at(log.ledgers, log.index, EARLIEST)
    for position in positions:
        cursor.ack(position, 0b10)
    subscription: Any = SimpleNamespace(log=log, cursor=cursor)
    assert preview(subscription, lambda c: c.reset_to(EARLIEST)).partly_acked_forgotten == 1500
    move = preview(subscription, lambda c: c.reset_to(positions[500]))
    assert (move.partly_acked_forgotten, move.replayed, move.skipped) == (1000, 1000, 500)
