"""A stand-in for broker.storage that keeps rows in dicts, for tests of the service that need no PostgreSQL.

It has what publishing, delivery, acks and moves of one broker need. Tests of fencing and lost connections use the real
storage. Queries that this module lacks find nothing.

Over 400 lines: it replaces every statement of broker.storage that a message needs, and all use the same rows.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from broker.core.cursor.state import AckChunk, AckOverlay, CursorFlush, CursorState
from broker.core.entry import StoredEntry
from broker.core.ledgers.ledger import LedgerInfo
from broker.core.position import Position
from broker.core.topic_name import TopicName
from broker.storage import prepared_connection
from broker.storage.acts import acts, parts
from broker.storage.cursors import chunk_codec, cursors, sessions
from broker.storage.log import entries as log
from broker.storage.log import lifetime
from broker.storage.pool import ConnectionPool
from broker.storage.topics import topics

__all__ = ["MemoryStorage", "StoredCursor"]


@dataclass(kw_only=True)
class StoredCursor:
    """A subscription's rows."""

    row: cursors.SubscriptionRow
    bits: dict[tuple[int, int], bytes] = field(default_factory=dict)
    ack_sets: dict[tuple[int, int], dict[int, int]] = field(default_factory=dict)

    def set(self, state: CursorState) -> None:
        """Replace the whole state."""
        self.row = replace(self.row, cursor=state)
        self.bits = {(each.ledger_id, each.chunk): each.bits for each in state.chunks}
        self.ack_sets = {(each.ledger_id, each.chunk): dict(each.ack_sets) for each in state.chunks}

    def apply(self, flush: CursorFlush) -> None:
        """Apply the changes of a flush."""
        for key in flush.dropped:
            self.bits.pop(key, None)
            self.ack_sets.pop(key, None)
        self.bits.update(flush.bitmaps)
        self.ack_sets.update({key: dict(sets) for key, sets in flush.ack_sets.items()})
        state = CursorState(
            mark_delete=flush.mark_delete,
            acked_messages=flush.acked_messages,
            acked_entries=flush.acked_entries,
            acked_bytes=flush.acked_bytes,
            version=flush.version,
            chunks=tuple(
                AckChunk(
                    ledger_id=key[0],
                    chunk=key[1],
                    bits=self.bits.get(key, b""),
                    ack_sets=self.ack_sets.get(key, {}),
                )
                for key in sorted(self.bits.keys() | self.ack_sets.keys())
            ),
        )
        self.row = replace(self.row, cursor=state)


@dataclass(kw_only=True)
class _Act:
    kind: str
    state: str
    subscription_id: int | None
    part_of: int | None = None  # the act on several partitions to which it belongs
    topic: str = ""  # set for a part
    before: CursorState | None = None
    result: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] | None = None
    cursor_version: int | None = None
    error: str = ""
    error_code: str = ""
    acked_since: bytes | None = None


class _Connection:
    """A connection that finds and stores nothing, for queries that this module lacks."""

    closed = False
    broken = False
    pgconn = None

    async def execute(self, *_: object, **__: object) -> _Connection:
        return self

    async def fetchone(self) -> None:
        return None

    async def fetchall(self) -> list[Any]:
        return []

    async def close(self) -> None:
        pass

    def cursor(self, **_: object) -> _Connection:
        return self

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        yield


class MemoryStorage:
    """The rows of one database. `installed()` puts it in place of broker.storage."""

    def __init__(self) -> None:
        self.entries: dict[Position, StoredEntry] = {}
        self.topics: dict[str, int] = {}
        self.partitions: dict[str, int] = {}  # number of partitions by topic name
        self.policies: dict[str, object] = {}  # the policies that every topic gets when it is loaded
        self.ledgers: dict[int, tuple[int, topics.LedgerRow]] = {}  # ledger → topic, row
        self.cursors: dict[int, tuple[int, StoredCursor]] = {}  # subscription → topic, rows
        self.acts: dict[int, _Act] = {}
        self.consumers: dict[int, sessions.ConsumerRow] = {}  # sessions, by key
        self.holds: list[Position] = []  # positions that undo windows keep from trimming
        self.bookmarks: list[Position] = []
        self.is_answering = asyncio.Event()  # while it is cleared, reads wait
        self.is_answering.set()
        self._last_id = 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Route the broker's storage calls to this object while the block runs."""
        with ExitStack() as stack:
            for module, names in (
                (log, ("append", "read", "read_some", "read_counts", "last_entry", "append_ms_at")),
                (topics, ("find_topic", "create_topic", "take_topics", "ledgers_of", "roll_ledgers")),
                (
                    cursors,
                    ("subscriptions_of", "create_subscription", "set_type", "delete_subscription", "flush"),
                ),
                (cursors, ("set_paused",)),
                (sessions, ("upsert_consumers", "delete_sessions")),
                (acts, ("finish", "apply_to_cursor", "record_client_act", "undo_source", "latest_move")),
                (acts, ("open_undos", "store_overlays", "replan")),
                (topics, ("owned",)),
                (parts, ("record_parts", "finish_whole", "parts_of")),
                (lifetime, ("seal_ledger", "trim", "undo_pins", "bookmark_pins")),
            ):
                for name in names:
                    stack.enter_context(patch.object(module, name, getattr(self, f"_{name}")))
            stack.enter_context(patch.object(prepared_connection, "connect", _connect))
            stack.enter_context(patch.object(ConnectionPool, "use", _use))
            yield

    def cursor_of(self, name: str) -> StoredCursor:
        """Return the rows of the subscription with this name."""
        return next(stored for _, stored in self.cursors.values() if stored.row.name == name)

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    # -- the log

    async def _append(
        self,
        _: object,
        *,
        segment_id: int,
        epochs: Mapping[int, int],
        rows: log.AppendRows,
        **_copying: object,
    ) -> set[int]:
        for entries in rows.entries.values():
            for entry in entries:
                self.entries[Position(entry.ledger_id, entry.entry_id)] = entry
        return set(epochs)

    async def _read(
        self, _: object, *, segment_id: int, ledger_id: int, first: int, last: int, more_bytes: int
    ) -> list[StoredEntry]:
        return await self._read_some(
            None, segment_id=segment_id, ledger_id=ledger_id, entry_ids=range(first, last + 1)
        )

    async def _read_some(
        self, _: object, *, segment_id: int, ledger_id: int, entry_ids: Sequence[int]
    ) -> list[StoredEntry]:
        await self.is_answering.wait()
        wanted = (Position(ledger_id, entry_id) for entry_id in entry_ids)
        return [self.entries[position] for position in wanted if position in self.entries]

    async def _read_counts(
        self, _: object, *, segment_id: int, ledger_id: int, first: int, last: int
    ) -> list[tuple[int, int, int]]:
        found = await self._read_some(
            None, segment_id=segment_id, ledger_id=ledger_id, entry_ids=range(first, last + 1)
        )
        return [(each.entry_id, each.cumulative_messages, each.cumulative_bytes) for each in found]

    async def _last_entry(self, _: object, *, segment_id: int, ledger_id: int) -> log.LastEntry | None:
        mine = [each for each in self.entries.values() if each.ledger_id == ledger_id]
        if not mine:
            return None
        last = mine[-1]
        return log.LastEntry(
            entry_id=last.entry_id,
            messages=last.messages,
            append_ms=last.append_ms,
            cumulative_messages=last.cumulative_messages,
            cumulative_bytes=last.cumulative_bytes,
        )

    async def _append_ms_at(self, _: object, *, segment_id: int, ledger_id: int, entry_id: int) -> int | None:
        found = self.entries.get(Position(ledger_id, entry_id))
        return None if found is None else found.append_ms

    # -- topics

    async def _find_topic(self, _: object, name: TopicName) -> topics.TopicRow | None:
        topic_id = self.topics.get(name.full)
        if topic_id is None:
            return None
        return topics.TopicRow(
            topic_id=topic_id,
            partitions=self.partitions.get(name.full, 0),
            partition=-1 if name.partition is None else name.partition,
            terminated=False,
            namespace_policies={},
            topic_policies=self.policies,
            last_used_ms=0,
            producer_epoch=None,
            has_deduplication=False,
        )

    async def _create_topic(self, _: object, name: TopicName, **__: object) -> None:
        self.topics.setdefault(name.full, self._next_id())

    def create_partitioned(self, name: TopicName, partitions: int) -> None:
        """Create a topic with partitions."""
        self.partitions[name.full] = partitions
        for each in (name, *(name.with_partition(number) for number in range(partitions))):
            self.topics[each.full] = self._next_id()

    async def _owned(self, _: object, epochs: Mapping[int, int]) -> set[int]:
        return set(epochs)

    async def _take_topics(self, _: object, topic_ids: Collection[int], *, token: int) -> dict[int, int]:
        return {each: self._next_id() for each in topic_ids}

    async def _ledgers_of(self, _: object, topic_id: int) -> list[topics.LedgerRow]:
        return [row for owner, row in self.ledgers.values() if owner == topic_id]

    async def _roll_ledgers(
        self,
        _: object,
        rolls: Sequence[tuple[topics.LedgerRoll, int]],
        *,
        segment_id: int,
        now_ms: int,
    ) -> dict[int, int]:
        opened = {}
        for roll, epoch in rolls:
            if roll.sealing is not None:
                await self._seal_ledger(_, topic_id=roll.topic_id, owner_epoch=epoch, ledger=roll.sealing)
            opened[roll.topic_id] = ledger_id = self._next_id()
            self.ledgers[ledger_id] = (
                roll.topic_id,
                topics.LedgerRow(
                    ledger_id=ledger_id,
                    segment_id=segment_id,
                    sealed=False,
                    entries=0,
                    messages=0,
                    size_bytes=0,
                    entries_before=roll.entries_before,
                    messages_before=roll.messages_before,
                    bytes_before=roll.bytes_before,
                    opened_ms=now_ms,
                    first_append_ms=0,
                    last_append_ms=0,
                    file_name=None,
                ),
            )
        return opened

    # -- lifetime

    async def _seal_ledger(self, _: object, *, topic_id: int, owner_epoch: int, ledger: LedgerInfo) -> bool:
        row = self.ledgers[ledger.ledger_id][1]
        self.ledgers[ledger.ledger_id] = (
            topic_id,
            replace(
                row,
                segment_id=row.segment_id if ledger.entries else None,
                sealed=True,
                entries=ledger.entries,
                messages=ledger.messages,
                size_bytes=ledger.size_bytes,
                first_append_ms=ledger.first_append_ms,
                last_append_ms=ledger.last_append_ms,
            ),
        )
        return True

    async def _trim(self, _: object, *, topic_id: int, owner_epoch: int, through: int) -> bool:
        newest = max(ledger_id for ledger_id, (owner, _row) in self.ledgers.items() if owner == topic_id)
        for ledger_id, (owner, row) in list(self.ledgers.items()):
            if owner != topic_id or ledger_id > through:
                continue
            if ledger_id < newest:
                del self.ledgers[ledger_id]
            elif row.sealed:
                emptied = replace(
                    row,
                    segment_id=None,
                    entries_before=row.entries_before + row.entries,
                    messages_before=row.messages_before + row.messages,
                    bytes_before=row.bytes_before + row.size_bytes,
                    entries=0,
                    messages=0,
                    size_bytes=0,
                    first_append_ms=0,
                )
                self.ledgers[ledger_id] = (topic_id, emptied)
        self.entries = {
            position: entry for position, entry in self.entries.items() if position.ledger_id > through
        }
        return True

    async def _undo_pins(self, _: object, topic_id: int) -> list[Position]:
        return self.holds

    async def _bookmark_pins(self, _: object, topic_id: int) -> list[Position]:
        return self.bookmarks

    # -- cursors

    async def _subscriptions_of(self, _: object, topic_id: int) -> list[cursors.SubscriptionRow]:
        return [stored.row for owner, stored in self.cursors.values() if owner == topic_id]

    async def _create_subscription(
        self,
        _: object,
        *,
        topic_id: int,
        owner_epoch: int,
        name: str,
        type_name: str,
        properties: Mapping[str, str],
        state: CursorState,
    ) -> int:
        subscription_id = self._next_id()
        stored = StoredCursor(
            row=cursors.SubscriptionRow(
                subscription_id=subscription_id,
                name=name,
                type=type_name,
                properties=properties,
                cursor=state,
                last_used_ms=0,
                paused=False,
            )
        )
        stored.set(state)
        self.cursors[subscription_id] = (topic_id, stored)
        return subscription_id

    async def _set_type(self, _: object, *, subscription_id: int, type_name: str, **__: object) -> bool:
        stored = self.cursors[subscription_id][1]
        stored.row = replace(stored.row, type=type_name)
        return True

    async def _delete_subscription(
        self, _: object, *, topic_id: int, subscription_id: int, owner_epoch: int
    ) -> bool:
        return self.cursors.pop(subscription_id, None) is not None

    async def _set_paused(self, _: object, *, subscription_id: int, paused: bool, **__: object) -> bool:
        stored = self.cursors[subscription_id][1]
        stored.row = replace(stored.row, paused=paused)
        return True

    async def _flush(
        self, _: object, *, epochs: Mapping[int, int], dirty: Sequence[cursors.DirtyCursor]
    ) -> set[int]:
        for each in dirty:
            self.cursors[each.subscription_id][1].apply(each.flush)
        return set(epochs)

    # -- sessions

    async def _upsert_consumers(self, _: object, rows: Sequence[sessions.ConsumerRow]) -> None:
        self.consumers.update({row.key: row for row in rows})

    async def _delete_sessions(
        self, _: object, *, consumers: Sequence[int], producers: Sequence[int]
    ) -> None:
        for key in consumers:
            self.consumers.pop(key, None)

    # -- acts

    def plan_act(self, kind: str, subscription_id: int | None) -> int:
        """Add an act and return its id. `subscription_id` is None if the topic is partitioned."""
        act_id = self._next_id()
        self.acts[act_id] = _Act(kind=kind, state="plan_requested", subscription_id=subscription_id)
        return act_id

    async def _finish(
        self,
        _: object,
        *,
        act_id: int,
        state: str,
        plan: str | None = None,
        result: str | None = None,
        error: str = "",
        error_code: str = "",
        cursor_version: int | None = None,
    ) -> None:
        act = self.acts[act_id]
        act.state, act.error, act.error_code = state, error, error_code
        if plan is not None:
            act.plan = json.loads(plan)
        if cursor_version is not None:
            act.cursor_version = cursor_version

    async def _replan(
        self,
        _: object,
        *,
        act_id: int,
        plan: str,
        cursor_version: int | None,
        error: str,
        error_code: str,
    ) -> None:
        act = self.acts[act_id]
        new_plan = self.plan_act(act.kind, act.subscription_id)
        await self._finish(_, act_id=new_plan, state="planned", plan=plan, cursor_version=cursor_version)
        await self._finish(_, act_id=act_id, state="refused", error=error, error_code=error_code)
        act.result = {"new_plan": new_plan}

    async def _apply_to_cursor(
        self,
        _: object,
        *,
        subscription_id: int,
        state: CursorState,
        before: CursorState,
        act_id: int,
        result: str,
        passed: AckOverlay,
        **__: object,
    ) -> bool:
        if subscription_id not in self.cursors:
            return False
        self.cursors[subscription_id][1].set(state)
        act = self.acts[act_id]
        act.state, act.before, act.result = "applied", before, json.loads(result)
        act.acked_since = chunk_codec.encode_overlay(passed)
        return True

    async def _record_parts(
        self, _: object, *, act_id: int, parts: Sequence[parts.RecordedPart]
    ) -> dict[str, int]:
        recorded = {}
        for part in parts:
            mine = self.topics[part.topic]
            (subscription_id,) = (key for key, (owner, _stored) in self.cursors.items() if owner == mine)
            recorded[part.topic] = part_id = self.plan_act(self.acts[act_id].kind, subscription_id)
            act = self.acts[part_id]
            act.part_of, act.topic, act.plan = act_id, part.topic, json.loads(part.plan)
        return recorded

    async def _finish_whole(self, _: object, *, act_id: int, result: str, **__: object) -> None:
        act = self.acts[act_id]
        act.state, act.result = "applied", json.loads(result)

    async def _parts_of(self, _: object, act_id: int) -> dict[str, int]:
        return {act.topic: part_id for part_id, act in self.acts.items() if act.part_of == act_id}

    async def _record_client_act(self, _: object, *, kind: str, subscription_id: int, **__: object) -> int:
        return self.plan_act(kind, subscription_id)

    async def _undo_source(self, _: object, act_id: int) -> acts.UndoSource | None:
        act = self.acts.get(act_id)
        if act is None:
            return None
        return acts.UndoSource(
            act_id=act_id,
            kind=act.kind,
            state=act.state,
            subscription_id=act.subscription_id,
            before=act.before,
            result=act.result,
            is_open=True,
            acked_since=acts.recorded_acks(act.acked_since, act.result),
        )

    async def _open_undos(self, _: object, topic_id: int) -> list[acts.OpenUndo]:
        found = []
        for subscription_id, (owner, _stored) in self.cursors.items():
            act_id = await self._latest_move(_, subscription_id) if owner == topic_id else None
            if act_id is not None and self.acts[act_id].kind != "seek":
                act = self.acts[act_id]
                recorded = acts.recorded_acks(act.acked_since, act.result)
                found.append(
                    acts.OpenUndo(
                        subscription_id=subscription_id, act_id=act_id, until_ms=2**62, acked_since=recorded
                    )
                )
        return found

    async def _store_overlays(
        self, _: object, *, epochs: Mapping[int, int], overlays: Sequence[tuple[int, int, AckOverlay]]
    ) -> None:
        for _topic_id, act_id, overlay in overlays:
            self.acts[act_id].acked_since = chunk_codec.encode_overlay(overlay)

    async def _latest_move(self, _: object, subscription_id: int) -> int | None:
        mine = [
            act_id
            for act_id, act in self.acts.items()
            if act.subscription_id == subscription_id and act.state == "applied" and act.before is not None
        ]
        return max(mine, default=None)


async def _connect(*_: object, **__: object) -> Any:
    return _Connection()


@asynccontextmanager
async def _use(_: ConnectionPool) -> AsyncIterator[Any]:
    yield _Connection()
