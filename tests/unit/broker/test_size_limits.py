"""Two limits of size that depend on each other."""

from __future__ import annotations

import pytest

from broker.conf import BrokerSettings

MIB = 1 << 20


@pytest.mark.parametrize(
    ("given", "message_mib", "uncompressed_mib"),
    [
        ({}, 5, 64),
        ({"VELA_MAX_MESSAGE_BYTES": str(100 * MIB)}, 100, 100),
        ({"VELA_MAX_UNCOMPRESSED_BYTES": str(MIB)}, 5, 5),
        ({"VELA_MAX_UNCOMPRESSED_BYTES": str(5 * MIB)}, 5, 5),
    ],
)
def test_an_accepted_entry_can_be_delivered_unchanged(
    given: dict[str, str], message_mib: int, uncompressed_mib: int
) -> None:
    settings = BrokerSettings.from_environment(given)
    assert settings.max_message_bytes == message_mib * MIB
    assert settings.max_uncompressed_bytes == uncompressed_mib * MIB
