"""What the receipt of a compaction says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from broker.acts.kinds.topics.compaction import _done
from broker.storage.log.compaction import CompactionResult, Kept


def test_the_receipt_says_that_the_log_stays_as_it_is() -> None:
    topic = cast(Any, SimpleNamespace(name="persistent://public/default/prices"))
    result = CompactionResult(kept=Kept(messages=1, size_bytes=60), removed_messages=9, duration_ms=3)
    assert _done(topic, result) == (
        "persistent://public/default/prices: for readers of the compacted topic 1 message stays (60 bytes)"
        " and 9 messages are left out; the log stays as it is"
    )
