"""What the receipt of a compaction says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from broker.acts.kinds.topics.compaction import _done
from broker.storage.log.compaction import CompactionResult, Kept


def test_the_receipt_says_that_the_log_did_not_change() -> None:
    topic = cast(Any, SimpleNamespace(name="persistent://public/default/prices"))
    result = CompactionResult(kept=Kept(messages=1, size_bytes=60), removed_messages=9, duration_ms=3)
    assert _done(topic, result) == (
        "persistent://public/default/prices: compaction kept 1 message (60 bytes) for readers of the compacted topic"
        " and left out 9 messages; the log did not change"
    )
