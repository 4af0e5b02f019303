"""Where the job compact begins in logs that retention has trimmed, and which logs it leaves out."""

from __future__ import annotations

import json
from typing import cast

from pipeline.database import Connection
from pipeline.jobs.compact import _has_news, _Log, _starts
from pipeline.source.bounds import starts_of
from pipeline.source.offsets import BEGINNING, Offset
from pipeline.source.options import ReadOptions
from pipeline.source.topic_logs import TopicLog
from tests.unit.pipeline.memory_log import MemoryIndex, emptied_log, memory_log

NAME = "persistent://public/default/t"
NO_CONNECTION = cast(Connection, None)


def compacted(begin: Offset) -> _Log:
    return _Log(topic_id=1, name=NAME, generation=1, begin=begin)


def start_in(log: TopicLog, begin: Offset) -> Offset:
    options = ReadOptions.parse(
        {
            "topic": NAME,
            "url": "postgresql://vela@127.0.0.1/vela",
            "startingOffsets": json.dumps(_starts([compacted(begin)])),
        }
    )
    return starts_of(NO_CONNECTION, [log], options, default="earliest")[NAME]


def test_the_last_compacted_entry_may_be_trimmed() -> None:
    log = memory_log(MemoryIndex(), [[(1, 10)] * 3], name=NAME, first_ledger=6, messages_before=4)
    assert start_in(log, Offset(ledger_id=5, entry_id=3, messages=4)) == log.earliest
    emptied = emptied_log(ledger_id=5, messages=4, name=NAME)
    assert start_in(emptied, Offset(ledger_id=5, entry_id=3, messages=4)).messages == 4


def test_a_topic_that_was_never_compacted_is_read_from_its_first_message() -> None:
    log = memory_log(MemoryIndex(), [[(1, 10)] * 3], name=NAME, first_ledger=6, messages_before=4)
    assert start_in(log, BEGINNING) == log.earliest


def test_logs_without_entries_after_the_compaction_are_left_out() -> None:
    end = memory_log(MemoryIndex(), [[(1, 10)] * 3], name=NAME, first_ledger=6).latest
    assert _has_news(compacted(BEGINNING), end)
    assert _has_news(compacted(Offset(ledger_id=5, entry_id=3, messages=0)), end)
    assert not _has_news(compacted(end), end)
    for empty in (emptied_log(ledger_id=6, messages=4).latest, BEGINNING):
        assert not _has_news(compacted(BEGINNING), empty)
        assert not _has_news(compacted(Offset(ledger_id=5, entry_id=3, messages=4)), empty)
