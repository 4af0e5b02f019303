"""Cursor rules one by one; the model test covers their combinations."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.core.cursor.cursor import Cursor
from broker.core.cursor.state import AckChunk, AckOverlay, CursorState, SkipTarget
from broker.core.errors import InvalidAck
from broker.core.ledgers.message_index import CHUNK_ENTRIES, IndexMissing
from broker.core.position import EARLIEST, LATEST, Position
from tests.unit.core.logs import ENTRY_BYTES, Log
from vela.wire.ack_set import full


def cursor_on(log: Log, start: Position = EARLIEST) -> Cursor:
    return Cursor.starting_at(log.ledgers, log.index, start)


def test_acks_out_of_order_move_mark_delete_in_one_step() -> None:
    log = Log()
    first, second, third = log.publish_all(1, 1, 1)
    cursor = cursor_on(log)
    cursor.ack(third)
    cursor.ack(second)
    assert cursor.mark_delete == Position(1, -1)
    assert list(cursor.individually_acked()) == [(1, 1, 2)]
    cursor.ack(first)
    assert cursor.mark_delete == third
    assert list(cursor.individually_acked()) == []


def test_bits_at_or_below_mark_delete_are_not_holes() -> None:
    log = Log()
    first, second, _ = log.publish_all(1, 1, 1)
    cursor = cursor_on(log)
    cursor.ack(second)
    assert cursor.has_individual_acks
    cursor.ack(first)  # the chunk keeps the bit of the second entry
    assert cursor.mark_delete == second
    assert not cursor.has_individual_acks


def test_mark_delete_crosses_ledgers_including_empty_ones() -> None:
    log = Log()
    a = log.publish()
    log.roll()
    log.roll(gap=4)
    b, c = log.publish_all(1, 1)
    cursor = cursor_on(log)
    cursor.ack(b)
    cursor.ack(a)
    assert cursor.mark_delete == b
    assert cursor.read_from() == c


def test_a_batch_acked_in_parts_counts_only_its_unacked_messages() -> None:
    log = Log()
    batch, _ = log.publish_all(3, 1)
    cursor = cursor_on(log)
    assert cursor.ack(batch, 0b101) == (1, False)
    assert cursor.ack(batch, 0b101) == (0, False)
    assert cursor.remaining_of(batch) == 0b101
    assert list(cursor.partly_acked()) == [(1, 0, 0b101)]
    assert cursor.backlog_messages == 3
    assert cursor.ack(batch) == (2, True)
    assert cursor.remaining_of(batch) == 0
    assert not cursor.has_partial_acks


def test_the_last_acked_member_completes_the_entry() -> None:
    log = Log()
    batch = log.publish(2)
    cursor = cursor_on(log)
    cursor.ack(batch, 0b10)
    assert cursor.ack(batch, 0b01) == (1, True)
    assert cursor.mark_delete == batch


def test_cumulative_ack_inside_a_batch_acks_up_to_the_entry_before() -> None:
    """In the batch itself, the acked members are recorded, and the others stay unacked."""
    log = Log()
    first, batch = log.publish_all(1, 4)
    cursor = cursor_on(log)
    assert cursor.ack_through(batch, 0b1100) == (3, False)
    assert cursor.mark_delete == first
    assert cursor.remaining_of(batch) == 0b1100
    assert cursor.ack_through(batch, 0b1110) == (0, False)
    assert cursor.ack_through(batch) == (2, True)


@pytest.mark.parametrize("beyond", [Position(1, 2), Position(1, -1), Position(2, 0), LATEST])
def test_an_unstored_entry_cannot_be_acked(beyond: Position) -> None:
    log = Log()
    log.publish_all(1, 1)
    cursor = cursor_on(log)
    for ack in (cursor.ack, cursor.ack_through):
        if beyond <= cursor.mark_delete:
            assert ack(beyond) == (0, False)
            continue
        with pytest.raises(InvalidAck, match="not stored"):
            ack(beyond)
    assert cursor.backlog_messages == 2


def test_trimmed_entries_count_as_acked() -> None:
    log = Log()
    log.publish_all(1, 1)
    log.roll()
    log.publish()
    cursor = cursor_on(log)
    log.ledgers.drop_first()
    assert cursor.ack(Position(1, 0)) == (0, False)
    assert cursor.read_from() == Position(2, 0)
    assert cursor.move_mark_delete(Position(1, 1)) == (2, False), "they leave the backlog by a move"
    assert cursor.backlog_messages == 1


def test_missing_counts_change_nothing_and_are_named() -> None:
    log = Log(indexed=False)
    log.publish_all(2, 3, 4, 1)
    cursor = cursor_on(log)
    before = cursor.snapshot()
    calls: list[Callable[[], object]] = [
        lambda: cursor.ack(Position(1, 1)),
        lambda: cursor.ack(Position(1, 1), 0b1),
        lambda: cursor.ack_through(Position(1, 1)),
        lambda: cursor.ack_through(Position(1, 1), 0b10),
        lambda: cursor.reset_to(Position(1, 2)),
        lambda: cursor.reset_to(Position(1, 2), 0b1),
        lambda: cursor.move_mark_delete(Position(1, 1)),
        lambda: cursor.move_mark_delete(Position(1, 1), 0b1),
        lambda: cursor.position_after_messages(4),
        lambda: cursor.position_after_entries(2),
    ]
    for call in calls:
        with pytest.raises(IndexMissing) as missing:
            call()
        assert cursor.snapshot() == before
        assert all(ledger_id == 1 and 0 <= low <= high < 4 for ledger_id, low, high in missing.value.ranges)
    for ledger_id, low, high in missing.value.ranges:
        log.load(ledger_id, low, high)
    for call in calls:
        call()


def test_clearing_needs_no_counts() -> None:
    log = Log(indexed=False)
    log.publish_all(2, 3)
    log.roll()
    log.publish_all(4, 1)
    cursor = cursor_on(log)
    assert cursor.move_mark_delete(LATEST) == (10, False)
    assert (cursor.backlog_messages, cursor.backlog_entries, cursor.backlog_bytes) == (0, 0, 0)
    cursor.reset_to(Position(2, 0))
    assert cursor.backlog_messages == 5


def test_seek_into_a_batch_keeps_its_ack_set() -> None:
    log = Log()
    _, batch, after = log.publish_all(1, 4, 1)
    cursor = cursor_on(log, LATEST)
    cursor.reset_to(batch, 0b1000)
    assert (cursor.read_from(), cursor.remaining_of(batch), cursor.backlog_messages) == (batch, 0b1000, 2)
    cursor.reset_to(batch, 0)
    assert cursor.read_from() == after
    cursor.reset_to(Position(1, 99), 0b1)
    assert (cursor.read_from(), cursor.has_partial_acks) == (log.ledgers.end(), False)


def test_moves_count_as_versions_and_acks_do_not() -> None:
    log = Log()
    log.publish_all(1, 1, 1)
    cursor = cursor_on(log)
    cursor.ack(Position(1, 0))
    cursor.ack_through(Position(1, 1))
    assert cursor.version == 0
    cursor.move_mark_delete(Position(1, 1))
    assert cursor.version == 0, "nothing moved"
    cursor.move_mark_delete(Position(1, 2))
    cursor.reset_to(EARLIEST)
    assert cursor.version == 2


def test_skip_ends_inside_a_batch_beyond_acked_entries() -> None:
    log = Log()
    _, acked, batch = log.publish_all(1, 1, 4)
    cursor = cursor_on(log)
    cursor.ack(acked)
    target = cursor.position_after_messages(3)
    assert target == SkipTarget(acked, 0b1100, 3, 1)
    assert cursor.move_mark_delete(target.mark_delete, target.remaining).messages == 3
    assert (cursor.backlog_messages, cursor.remaining_of(batch)) == (2, 0b1100)


def test_rewind_stops_at_the_first_stored_entry() -> None:
    log = Log()
    log.publish_all(1, 3, 2)
    cursor = cursor_on(log, LATEST)
    assert cursor.shifted_position(0) == (log.ledgers.end(), None)
    assert cursor.shifted_position(-2) == (Position(1, 2), None)
    assert cursor.shifted_position(-3) == (Position(1, 1), 0b100)
    assert cursor.shifted_position(-100) == (Position(1, 0), None)
    assert cursor.shift_room() == (6, 0)
    cursor.reset_to(Position(1, 1))
    assert cursor.shift_room() == (1, 5)


def test_a_shift_does_not_go_back_into_trimmed_messages() -> None:
    log = Log()
    log.publish_all(1, 3)
    log.roll()
    log.publish_all(2, 1)
    cursor = cursor_on(log, LATEST)
    assert cursor.shift_room() == (7, 0)
    log.ledgers.drop_first()
    assert cursor.shift_room() == (3, 0)
    cursor = cursor_on(log, EARLIEST)
    assert cursor.shift_room() == (0, 3)


def test_undo_of_a_skip_keeps_acks_of_pending_messages() -> None:
    """Consumers may ack messages that they held when the skip passed them."""
    log = Log()
    positions = log.publish_all(*[1] * 10)
    cursor = cursor_on(log)
    cursor.ack(positions[1])
    snapshot = cursor.snapshot()
    cursor.move_mark_delete(positions[6])
    act_mark_delete = cursor.mark_delete
    cursor.start_undo_overlay(cursor.overlay_since(snapshot))
    assert cursor.ack(positions[3]) == (0, False)
    cursor.ack(positions[8])
    overlay = cursor.undo_overlay()
    assert overlay is not None
    cursor.undo(snapshot, act_mark_delete, overlay)
    acked = [p.entry_id for p in positions if cursor.is_acked(p)]
    assert acked == [1, 3, 8]
    assert (cursor.backlog_messages, cursor.recount()) == (7, cursor.totals)


def test_undo_restores_messages_that_a_later_cumulative_ack_did_not_cover() -> None:
    log = Log()
    positions = log.publish_all(*[1] * 6)
    cursor = cursor_on(log)
    snapshot = cursor.snapshot()
    cursor.move_mark_delete(positions[3])
    cursor.start_undo_overlay(cursor.overlay_since(snapshot))
    cursor.ack_through(positions[1])
    cursor.ack_through(positions[4])
    cursor.undo(snapshot, positions[3])
    assert [p.entry_id for p in positions if cursor.is_acked(p)] == [0, 1, 4]


def test_undo_of_a_skip_into_a_batch_keeps_acks_of_its_messages() -> None:
    log = Log()
    batch = log.publish(4)
    cursor = cursor_on(log)
    snapshot = cursor.snapshot()
    cursor.move_mark_delete(Position(1, -1), 0b1100)
    cursor.start_undo_overlay(cursor.overlay_since(snapshot))
    cursor.ack(batch, 0b1011)
    cursor.undo(snapshot, Position(1, -1))
    assert cursor.remaining_of(batch) == 0b1011


def test_overlay_survives_a_restart() -> None:
    log = Log()
    positions = log.publish_all(*[2] * 4)
    cursor = cursor_on(log)
    snapshot = cursor.snapshot()
    cursor.move_mark_delete(positions[3])
    cursor.start_undo_overlay(cursor.overlay_since(snapshot))
    cursor.ack(positions[2])
    cursor.ack(positions[1], 0b10)
    overlay = cursor.undo_overlay()
    assert overlay is not None
    again = Cursor(log.ledgers, log.index, cursor.snapshot())
    again.start_undo_overlay(overlay)
    again.ack(positions[1], 0b01)
    again.undo(snapshot, positions[3])
    assert [p.entry_id for p in positions if again.is_acked(p)] == [1, 2]


def test_a_flush_contains_only_changes() -> None:
    log = Log()
    positions = log.publish_all(3, 1, 1, 1)
    cursor = cursor_on(log)
    flush = cursor.take_dirty()
    assert flush is not None
    assert (flush.bitmaps, flush.ack_sets, flush.dropped) == ({}, {}, ())
    assert cursor.take_dirty() is None
    cursor.ack(positions[2])
    flush = cursor.take_dirty()
    assert flush is not None
    assert (dict(flush.bitmaps), flush.ack_sets) == ({(1, 0): b"\x04"}, {})
    cursor.ack(positions[0], 0b1)
    flush = cursor.take_dirty()
    assert flush is not None
    assert (flush.bitmaps, dict(flush.ack_sets)) == ({}, {(1, 0): {0: 0b1}})
    cursor.ack_through(positions[3])
    flush = cursor.take_dirty()
    assert flush is not None
    assert (flush.bitmaps, flush.ack_sets, flush.dropped) == ({}, {}, ((1, 0),))
    assert flush.mark_delete == positions[3]
    cursor.put_back(flush)
    assert cursor.take_dirty() == flush


def test_a_chunk_dropped_and_made_again_is_written_whole() -> None:
    """Otherwise the ack sets of the earlier chunk, which are still stored, would be valid again."""
    log = Log()
    positions = log.publish_all(2, 1, 1, 1)
    cursor = cursor_on(log)
    cursor.ack(positions[0], 0b10)
    cursor.take_dirty()
    cursor.ack_through(positions[3])
    cursor.reset_to(EARLIEST)
    cursor.ack(positions[2])
    flush = cursor.take_dirty()
    assert flush is not None
    assert dict(flush.bitmaps) == {(1, 0): b"\x04"}
    assert dict(flush.ack_sets) == {(1, 0): {}}
    assert flush.dropped == ()


@pytest.mark.parametrize("next_ledger", [False, True])
@pytest.mark.parametrize("cumulative", [False, True])
def test_a_chunk_without_acks_is_dropped_when_mark_delete_leaves_it(
    next_ledger: bool, cumulative: bool
) -> None:
    """Its row is still stored, with no ack sets: each batch that is acked in parts would otherwise leave a row."""
    log = Log(indexed=False)
    entries = CHUNK_ENTRIES if next_ledger else CHUNK_ENTRIES + 1
    log.ledgers.append(1, entries, 2 * entries, 2 * entries, append_ms=1)
    log.index.record(1, 0, range(2, 2 * entries + 1, 2), range(2, 2 * entries + 1, 2))
    following = Position(1, CHUNK_ENTRIES)
    if next_ledger:
        log.roll()
        log.ledgers.append(2, 1, 2, 2, append_ms=1)
        log.index.record(2, 0, [2 * entries + 2], [2 * entries + 2])
        following = Position(2, 0)
    cursor = cursor_on(log)
    cursor.ack(Position(1, 0), 0b10)
    cursor.take_dirty()
    cursor.ack(Position(1, 0), 0b01)
    cursor.ack_through(Position(1, CHUNK_ENTRIES - 1))
    flush = cursor.take_dirty()
    assert flush is not None
    assert (dict(flush.ack_sets), flush.dropped) == ({(1, 0): {}}, ())
    assert cursor.take_dirty() is None
    if cumulative:
        cursor.ack_through(following)
    else:
        cursor.ack(following)
    flush = cursor.take_dirty()
    assert flush is not None
    assert (flush.mark_delete, flush.dropped) == (following, ((1, 0),))


def test_runs_join_across_chunks() -> None:
    log = Log(indexed=False)
    entries = 3 * CHUNK_ENTRIES
    log.ledgers.append(1, entries, entries, entries, append_ms=1)
    log.index.record(1, 0, range(1, entries + 1), range(1, entries + 1))
    cursor = cursor_on(log)
    for entry_id in range(CHUNK_ENTRIES - 3, CHUNK_ENTRIES + 2):
        cursor.ack(Position(1, entry_id))
    cursor.ack(Position(1, entries - 1))
    assert list(cursor.individually_acked()) == [
        (1, CHUNK_ENTRIES - 3, CHUNK_ENTRIES + 1),
        (1, entries - 1, entries - 1),
    ]
    assert list(cursor.individually_acked(limit=1)) == [(1, CHUNK_ENTRIES - 3, CHUNK_ENTRIES + 1)]
    assert cursor.next_unacked(Position(1, CHUNK_ENTRIES - 2)) == Position(1, CHUNK_ENTRIES + 2)
    assert cursor.next_unacked(Position(1, entries - 1)) == Position(1, entries)
    target = cursor.position_after_messages(CHUNK_ENTRIES)
    assert target.mark_delete == Position(1, CHUNK_ENTRIES + 4)
    cursor.ack_through(Position(1, CHUNK_ENTRIES - 4))
    assert cursor.mark_delete == Position(1, CHUNK_ENTRIES + 1)
    assert cursor.recount() == cursor.totals


def test_a_skip_past_wholly_acked_chunks_needs_no_counts_of_them() -> None:
    """One unacked message holds the cursor, and whole ledgers of acked messages follow it."""
    log = Log(indexed=False)
    first = log.publish()
    for _ in range(3):
        log.roll()
        log.publish_all(2, 2)
    log.roll()
    last = log.publish()
    state = CursorState(
        mark_delete=Position(1, -1),
        acked_messages=12,
        acked_entries=6,
        acked_bytes=12 * ENTRY_BYTES,
        chunks=tuple(AckChunk(ledger_id=ledger_id, chunk=0, bits=b"\x03") for ledger_id in (2, 3, 4)),
    )
    cursor = Cursor(log.ledgers, log.index, state)
    assert cursor.position_after_messages(1).mark_delete == first
    assert cursor.position_after_messages(2) == (last, None, 2, 2)
    assert cursor.position_after_entries(2) == (last, None, 2, 2)


def test_a_hundred_thousand_holes_are_kept_and_can_be_closed() -> None:
    """Pulsar drops ranges of acks beyond 10,000; Vela drops none."""
    log = Log(indexed=False)
    entries = 200_001
    log.ledgers.append(1, entries, entries, entries, append_ms=1)
    log.index.record(1, 0, range(1, entries + 1), range(1, entries + 1))
    cursor = cursor_on(log)
    for entry_id in range(1, entries, 2):
        cursor.ack(Position(1, entry_id))
    assert cursor.backlog_messages == 100_001
    flush = cursor.take_dirty()
    assert flush is not None
    assert sum(len(bits) for bits in flush.bitmaps.values()) <= 7 * 4096
    state = cursor.snapshot()
    again = Cursor(log.ledgers, log.index, state)
    assert again.last_acked == cursor.last_acked == Position(1, entries - 2)
    assert again.totals == again.recount() == cursor.totals
    for entry_id in range(0, entries, 2):
        again.ack(Position(1, entry_id))
    assert (again.mark_delete, again.backlog_messages) == (Position(1, entries - 1), 0)
    assert again.snapshot().chunks == ()
    assert again.last_acked == again.mark_delete


def test_undo_without_recorded_acks_restores_the_snapshot() -> None:
    log = Log()
    positions = log.publish_all(1, 1)
    cursor = cursor_on(log)
    snapshot = cursor.snapshot()
    cursor.move_mark_delete(LATEST)
    cursor.undo(snapshot, positions[1], AckOverlay())
    assert cursor.backlog_messages == 2
    assert cursor.ack(positions[0], full(1)) == (0, False)
