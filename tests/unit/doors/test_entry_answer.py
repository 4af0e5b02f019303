"""What the admin API answers for an entry that it cannot decompress, or that does not fit into headers."""

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


def test_properties_that_no_client_would_read_are_refused_with_what_to_do() -> None:
    def answered(characters: int) -> str:
        large = metadata()
        large.properties.add(key="a", value="x" * characters)
        return str(entry_answer(stored(compose(large, b"m")), most_bytes=1000)["X-Pulsar-PROPERTY"])

    assert len(answered(60_000)) == 60_000 + len('{"a": ""}')
    with pytest.raises(Refused, match=r"X-Pulsar-PROPERTY of entry 1:2 .*: consume the message") as refused:
        answered(65_000)
    assert refused.value.status == 422
