"""The machine reads the entries that a compaction kept, and then the log above the horizon."""

from __future__ import annotations

from typing import NamedTuple

from broker.core.entry import StoredEntry
from broker.core.position import Position
from broker.subscription.machine.effects import ReadAhead, ReadCompacted, TellEnd
from tests.unit.subscription.machines import EXCLUSIVE, Machine


class Page(NamedTuple):
    """The result of one read of a compacted topic."""

    first: Position
    entries: list[StoredEntry]
    end: Position


def read(machine: Machine, first: Position, kept: list[Position], end: Position) -> None:
    """Finish a read of the compacted topic."""
    machine.machine.sending.compacted_read(Page(first, [machine.entry(each) for each in kept], end))


def after(position: Position) -> Position:
    return Position(position.ledger_id, position.entry_id + 1)


def test_the_machine_reads_kept_entries_up_to_the_horizon_and_then_the_log() -> None:
    machine = Machine(EXCLUSIVE)
    positions = machine.publish(1, 1, 1, 1, 1)
    machine.compacted.horizon = positions[3]
    machine.attach(1, permits=10, read_compacted=True)
    assert machine.pump() == [ReadCompacted(Position(0, 0))]
    read(machine, Position(0, 0), [positions[1]], positions[2])
    assert machine.pump() == [ReadCompacted(positions[2])]
    read(machine, positions[2], [positions[3]], positions[4])
    assert machine.pump() == []
    assert machine.sent == {1: [positions[1], positions[3], positions[4]]}


def test_permits_stop_inside_a_page_which_is_not_read_again() -> None:
    machine = Machine(EXCLUSIVE)
    positions = machine.publish(1, 1, 1)
    machine.compacted.horizon = positions[2]
    member, _ = machine.attach(1, permits=2, read_compacted=True)
    machine.pump()
    read(machine, Position(0, 0), positions, after(positions[2]))
    assert machine.pump() == []
    assert machine.sent == {1: positions[:2]}
    machine.machine.flow(member, 5, machine.now_ms)
    assert machine.pump() == []
    assert machine.sent == {1: positions}


def test_a_consumer_that_does_not_ask_for_compacted_reads_gets_the_log() -> None:
    machine = Machine(EXCLUSIVE)
    positions = machine.publish(1, 1)
    machine.compacted.horizon = positions[1]
    machine.attach(1, permits=10)
    assert machine.pump() == []
    assert machine.sent == {1: positions}


def test_acked_entries_that_are_still_stored_do_not_come_again() -> None:
    machine = Machine(EXCLUSIVE)
    positions = machine.publish(1, 1, 1)
    machine.compacted.horizon = positions[2]
    machine.state.cursor.ack(positions[1])
    machine.attach(1, permits=10, read_compacted=True)
    machine.pump()
    read(machine, Position(0, 0), positions, after(positions[2]))
    machine.pump()
    assert machine.sent == {1: [positions[0], positions[2]]}


def test_a_reader_learns_of_the_end_after_it_was_sent_the_trimmed_entries_that_were_kept() -> None:
    machine = Machine(EXCLUSIVE, is_durable=False)
    positions = machine.publish(1, 1, 1)
    machine.compacted.horizon = positions[2]
    member, _ = machine.attach(1, permits=10, read_compacted=True)
    machine.log.roll()
    machine.state.cursor.move_mark_delete(positions[2])  # as a trim moves a reader that is behind
    machine.state.begin_at(Position(0, 0))
    machine.machine.moved()
    machine.log.ledgers.drop_first()
    machine.cached.clear()
    assert machine.machine.topic_ended() == ()
    assert machine.pump() == [ReadCompacted(Position(0, 0))]
    read(machine, Position(0, 0), [positions[0]], positions[1])
    assert machine.pump() == [ReadCompacted(positions[1])]
    assert TellEnd([1]) not in machine.ack(member, positions[0])
    read(machine, positions[1], [positions[1]], after(positions[2]))
    assert machine.pump() == [TellEnd([1])]
    assert machine.sent == {1: positions[:2]}


def test_if_the_compaction_kept_nothing_the_machine_reads_the_log() -> None:
    machine = Machine(EXCLUSIVE)
    positions = machine.publish(1, 1)
    machine.compacted.horizon = positions[0]
    machine.cached.clear()
    machine.attach(1, permits=10, read_compacted=True)
    machine.pump()
    read(machine, Position(0, 0), [], positions[1])
    assert machine.pump() == [ReadAhead(positions[1])]
