"""The cursor, compared with a set of acked messages: every total is exact after any operations in any order."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.core.cursor import ack_chunks
from broker.core.cursor import counting as cursor_count
from broker.core.cursor import cursor as cursor_module
from broker.core.cursor.cursor import Cursor
from broker.core.cursor.state import AckChunk, CursorFlush, CursorState
from broker.core.ledgers import message_index
from broker.core.position import EARLIEST, LATEST, Position
from tests.support.examples import model_settings
from tests.unit.core.logs import ENTRY_BYTES, Log
from vela.wire.ack_set import full

Message = tuple[Position, int]


class Store:
    """The state of a database after applying flushes."""

    def __init__(self) -> None:
        self.flush: CursorFlush | None = None
        self.bits: dict[tuple[int, int], bytes] = {}
        self.sets: dict[tuple[int, int], dict[int, int]] = {}

    def apply(self, flush: CursorFlush) -> None:
        self.flush = flush
        for key in flush.dropped:
            self.bits.pop(key, None)
            self.sets.pop(key, None)
        self.bits.update(flush.bitmaps)
        self.sets.update({key: dict(sets) for key, sets in flush.ack_sets.items()})

    def state(self) -> CursorState:
        assert self.flush is not None
        return CursorState(
            mark_delete=self.flush.mark_delete,
            acked_messages=self.flush.acked_messages,
            acked_entries=self.flush.acked_entries,
            acked_bytes=self.flush.acked_bytes,
            version=self.flush.version,
            chunks=tuple(
                AckChunk(
                    ledger_id=k[0], chunk=k[1], bits=self.bits.get(k, b""), ack_sets=self.sets.get(k, {})
                )
                for k in sorted(self.bits.keys() | self.sets.keys())
            ),
        )


class CursorMachine(RuleBasedStateMachine):
    @initialize(sizes=st.lists(st.integers(1, 4), max_size=8), at_end=st.booleans())
    def begin(self, sizes: list[int], at_end: bool) -> None:
        self.log = Log()
        self.log.publish_all(*sizes)
        self.cursor = Cursor.starting_at(self.log.ledgers, self.log.index, LATEST if at_end else EARLIEST)
        self.acked: set[Message] = self.all_messages() if at_end else set()
        self.store = Store()
        self.undo: tuple[CursorState, Position, set[Message], set[Message]] | None = None
        self.flush()

    def all_messages(self) -> set[Message]:
        return {(p, i) for p, size in self.log.sizes.items() for i in range(size)}

    def messages_of(self, position: Position) -> set[Message]:
        return {(position, i) for i in range(self.log.sizes[position])}

    def whole(self, position: Position) -> bool:
        return self.messages_of(position) <= self.acked

    def model_mark_delete(self) -> Position | None:
        """Return the last of the leading run of wholly acked entries, or None if the first entry is not acked."""
        found = None
        for position in self.log.sizes:
            if not self.whole(position):
                break
            found = position
        return found

    def ack_in_model(self, messages: set[Message]) -> None:
        self.acked |= messages
        if self.undo is not None:
            # If the act passed a part of a batch, no consumer holds that part, so acks of that part do not count.
            _, act_mark_delete, restored, passed = self.undo
            restored |= {
                m for m in messages if m[0] <= act_mark_delete or m not in passed or m[0] in self.passed_whole
            }

    def pick(self, data: st.DataObject) -> Position:
        return data.draw(st.sampled_from(self.log.positions()))

    def has_entries(self) -> bool:
        return bool(self.log.positions())

    @rule(sizes=st.lists(st.integers(1, 4), min_size=3, max_size=6))
    def publish(self, sizes: list[int]) -> None:
        self.log.publish_all(*sizes)

    @rule(gap=st.integers(1, 3))
    def roll(self, gap: int) -> None:
        self.log.roll(gap)

    @precondition(has_entries)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        position = self.pick(data)
        new = self.messages_of(position) - self.acked
        result = self.cursor.ack(position)
        self.ack_in_model(self.messages_of(position))
        assert result == (len(new), bool(new))

    @precondition(has_entries)
    @rule(data=st.data())
    def ack_part(self, data: st.DataObject) -> None:
        position = self.pick(data)
        remaining = data.draw(st.integers(0, 15))
        members = {m for m in self.messages_of(position) if not remaining >> m[1] & 1}
        new = members - self.acked
        result = self.cursor.ack(position, remaining)
        self.ack_in_model(members)
        assert result == (len(new), bool(new) and self.whole(position))

    @precondition(has_entries)
    @rule(data=st.data(), part=st.none() | st.integers(0, 15))
    def ack_through(self, data: st.DataObject, part: int | None) -> None:
        position = self.pick(data)
        beyond = position > self.cursor.mark_delete
        before = len(self.acked)
        upto = {m for p in self.log.sizes if p < position for m in self.messages_of(p)}
        members = {m for m in self.messages_of(position) if part is None or not part >> m[1] & 1}
        result = self.cursor.ack_through(position, part)
        if beyond:
            self.acked |= upto | members
            if self.undo is not None:
                _, act_mark_delete, restored, passed = self.undo
                restored |= {m for m in upto | members if m[0] > act_mark_delete} - passed
        elif self.undo is not None and position <= self.undo[1]:
            self.undo[2].update(upto | members)
        assert result.messages == len(self.acked) - before

    @precondition(has_entries)
    @rule(data=st.data(), part=st.none() | st.integers(0, 15))
    def reset(self, data: st.DataObject, part: int | None) -> None:
        position = data.draw(st.sampled_from([*self.log.positions(), EARLIEST, LATEST]))
        self.begin_act(data)
        version = self.cursor.version
        self.cursor.reset_to(position, part)
        assert self.cursor.version == version + 1
        self.acked = {m for m in self.all_messages() if m[0] < position}
        if part is not None and position in self.log.sizes:
            self.acked |= {m for m in self.messages_of(position) if not part >> m[1] & 1}
        self.end_act()

    @rule(data=st.data(), count=st.integers(0, 30))
    def skip_messages(self, data: st.DataObject, count: int) -> None:
        unacked = sorted(self.all_messages() - self.acked)
        target = self.cursor.position_after_messages(count)
        assert target.messages == min(count, len(unacked))
        self.begin_act(data)
        result = self.cursor.move_mark_delete(target.mark_delete, target.remaining)
        assert result.messages == target.messages
        self.acked |= set(unacked[:count])
        self.end_act()

    @rule(data=st.data(), count=st.integers(0, 12))
    def skip_entries(self, data: st.DataObject, count: int) -> None:
        unacked = [p for p in self.log.sizes if not self.whole(p)]
        target = self.cursor.position_after_entries(count)
        assert target.entries == min(count, len(unacked))
        self.begin_act(data)
        self.cursor.move_mark_delete(target.mark_delete, target.remaining)
        self.acked |= {m for p in unacked[:count] for m in self.messages_of(p)}
        self.end_act()

    @precondition(has_entries)
    @rule(data=st.data())
    def move_mark_delete(self, data: st.DataObject) -> None:
        position = data.draw(st.sampled_from([*self.log.positions(), LATEST]))
        self.begin_act(data)
        self.cursor.move_mark_delete(position)
        self.acked |= {m for m in self.all_messages() if m[0] <= position}
        self.end_act()

    @rule(data=st.data(), count=st.integers(0, 30))
    def rewind(self, data: st.DataObject, count: int) -> None:
        behind = sorted(
            m for p in self.log.sizes if p <= self.cursor.mark_delete for m in self.messages_of(p)
        )
        position, remaining = self.cursor.shifted_position(-count)
        self.begin_act(data)
        self.cursor.reset_to(position, remaining)
        self.acked = set(behind[: max(0, len(behind) - count)])
        self.end_act()

    @precondition(has_entries)
    @rule(data=st.data(), part=st.none() | st.integers(0, 15))
    def skip_one(self, data: st.DataObject, part: int | None) -> None:
        position = self.pick(data)
        if self.cursor.is_acked(position):
            return
        self.begin_act(data)
        self.cursor.skip_one(position, part)
        self.acked |= {m for m in self.messages_of(position) if part is None or not part >> m[1] & 1}
        self.end_act()

    @precondition(has_entries)
    @rule(data=st.data())
    def compare(self, data: st.DataObject) -> None:
        """Compare with another cursor of the topic, in both directions."""
        other = Cursor.starting_at(self.log.ledgers, self.log.index, self.pick(data))
        acked = {m for m in self.all_messages() if m[0] <= other.mark_delete}
        for position in data.draw(st.lists(st.sampled_from(self.log.positions()), max_size=5)):
            part = data.draw(st.none() | st.integers(0, 15))
            other.ack(position, part)
            acked |= {m for m in self.messages_of(position) if part is None or not part >> m[1] & 1}
        assert self.cursor.acked_only_here(other).messages == len(self.acked - acked)
        assert other.acked_only_here(self.cursor).messages == len(acked - self.acked)

    def begin_act(self, data: st.DataObject) -> None:
        self.before = (self.cursor.snapshot(), set(self.acked))

    def end_act(self) -> None:
        """End an act that can be undone: remember what an undo must bring back."""
        snapshot, acked = self.before
        self.cursor.start_undo_overlay(self.cursor.overlay_since(snapshot))
        self.passed_whole = {p for p in self.log.sizes if self.whole(p)}
        self.undo = (snapshot, self.cursor.mark_delete, acked, set(self.acked))

    @precondition(lambda self: self.undo is not None)
    @rule(data=st.data(), restart=st.booleans())
    def take_back(self, data: st.DataObject, restart: bool) -> None:
        """Undo the latest act. An undo is an act like the others, so it can be undone in turn."""
        assert self.undo is not None
        snapshot, act_mark_delete, acked, _ = self.undo
        overlay = self.cursor.undo_overlay() if restart else None
        self.begin_act(data)
        self.cursor.undo(snapshot, act_mark_delete, overlay)
        self.acked = acked
        self.end_act()

    @rule()
    def flush(self) -> None:
        flush = self.cursor.take_dirty()
        if flush is not None:
            self.store.apply(flush)
        assert self.cursor.take_dirty() is None

    @rule(stored=st.booleans())
    def flush_fails(self, stored: bool) -> None:
        flush = self.cursor.take_dirty()
        if flush is not None:
            if stored:
                self.store.apply(flush)
            self.cursor.put_back(flush)

    @rule()
    def restart(self) -> None:
        """Replace the cursor with one that a new owner loads from the flushed state alone."""
        self.flush()
        overlay = self.cursor.undo_overlay()
        self.cursor = Cursor(self.log.ledgers, self.log.index, self.store.state())
        assert self.cursor.take_dirty() is None
        if overlay is not None:
            self.cursor.start_undo_overlay(overlay)

    @rule()
    def snapshot_and_restore(self) -> None:
        self.cursor.restore(self.cursor.snapshot())

    @rule()
    def trim(self) -> None:
        """Drop the sealed ledgers that lie wholly at or below mark-delete, unless an undo needs them."""
        if self.undo is None and len(self.log.ledgers) > 1:
            first = self.log.ledgers.infos()[0]
            if self.cursor.mark_delete >= Position(first.ledger_id, first.entries - 1):
                self.log.ledgers.drop_first()
                gone = {p for p in self.log.sizes if p.ledger_id == first.ledger_id}
                self.acked = {m for m in self.acked if m[0] not in gone}
                self.log.sizes = {p: size for p, size in self.log.sizes.items() if p not in gone}

    @invariant()
    def exact(self) -> None:
        if not hasattr(self, "cursor"):
            return
        cursor = self.cursor
        unacked = self.all_messages() - self.acked
        open_entries = [p for p in self.log.sizes if not self.whole(p)]
        assert cursor.backlog_messages == len(unacked)
        assert cursor.backlog_entries == len(open_entries)
        assert cursor.backlog_bytes == sum(self.log.sizes[p] for p in open_entries) * ENTRY_BYTES
        assert cursor.recount() == cursor.totals
        model = self.model_mark_delete()
        if model is not None:
            assert self.log.ledgers.floor(cursor.mark_delete) == model
        first_open = open_entries[0] if open_entries else self.log.ledgers.end()
        assert cursor.read_from() == first_open
        for position in self.log.sizes:
            mine = sum(1 << i for p, i in unacked if p == position)
            held = cursor.remaining_of(position)
            assert (full(self.log.sizes[position]) if held is None else held) == mine
            assert cursor.is_acked(position) == (mine == 0)
        acked = {Position(ledger, e) for ledger, a, b in cursor.individually_acked() for e in range(a, b + 1)}
        assert acked == {p for p in self.log.sizes if self.whole(p) and p > first_open}
        assert cursor.last_acked == max(acked, default=cursor.mark_delete)


class SmallChunkMachine(CursorMachine):
    """The same machine with chunks of 8 entries, so that a few entries already cross the borders of chunks."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        for module in (ack_chunks, cursor_count, cursor_module, message_index):
            for name, value in (("CHUNK_SHIFT", 3), ("CHUNK_ENTRIES", 8), ("CHUNK_MASK", 7)):
                if hasattr(module, name):
                    self.patch.setattr(module, name, value)
        self.patch.setattr(ack_chunks, "_BYTES", 1)
        self.patch.setattr(message_index, "_FEW_RUNS", 1)

    def teardown(self) -> None:
        self.patch.undo()

    @rule()
    def publish_many(self) -> None:
        self.log.publish_all(*[1] * 10)

    @precondition(lambda self: self.has_entries())
    @rule(data=st.data(), length=st.integers(5, 20))
    def ack_many(self, data: st.DataObject, length: int) -> None:
        first = self.pick(data)
        for position in [p for p in self.log.positions() if p >= first][:length]:
            self.cursor.ack(position)
            self.ack_in_model(self.messages_of(position))


SmallChunkMachine.TestCase.settings = model_settings(examples=100)
TestSmallChunks = SmallChunkMachine.TestCase
CursorMachine.TestCase.settings = model_settings(examples=150)
TestCursorMachine = CursorMachine.TestCase
