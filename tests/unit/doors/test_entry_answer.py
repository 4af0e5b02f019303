"""What the admin API answers for an entry that it cannot decompress."""

from __future__ import annotations

import pytest

from broker.core.entry import FLAG_CORRUPT, StoredEntry
from broker.doors.admin.messages.entry_answer import entry_answer
from broker.doors.admin.refusals import Refused
from tests.unit.client.entries import compose, metadata

DAMAGED = compose(metadata(compression=1, uncompressed_size=5), b"no lz4")
UNKNOWN = compose(metadata(compression=9, uncompressed_size=5), b"x")


def stored(data: bytes, flags: int = 0) -> StoredEntry:
    return StoredEntry(1, 2, 1, flags, 0, 0, 0, 1, len(data), data)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (stored(DAMAGED), "entry 1:2 is damaged: "),
        (stored(b"", FLAG_CORRUPT), "entry 1:2 is damaged"),
        (stored(UNKNOWN), "entry 1:2 cannot be decompressed here: unknown compression 9"),
    ],
)
def test_the_reason_tells_damage_from_an_unknown_codec(entry: StoredEntry, reason: str) -> None:
    with pytest.raises(Refused) as refused:
        entry_answer(entry, most_bytes=1000)
    assert refused.value.reason.startswith(reason)
