"""What a seek, or a reader's start, may be given."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from vela.core.consuming.seek_target import seek_target
from vela.errors import InvalidConfiguration
from vela.message import MessageId

TOPIC = "persistent://public/default/t"
PARTITION = f"{TOPIC}-partition-3"


@pytest.mark.parametrize(
    "position",
    [None, "5", b"", 1.5, True, datetime.datetime.now(datetime.UTC), lambda _: "x", lambda _: None],
)
def test_an_argument_that_is_not_a_position_is_refused(position: Any) -> None:
    with pytest.raises(
        InvalidConfiguration, match="seek takes a message id or a whole number of milliseconds"
    ):
        seek_target(position, TOPIC)


@pytest.mark.parametrize("time_ms", [-1, 1 << 63, 2**70])
def test_a_time_out_of_range_is_refused(time_ms: int) -> None:
    with pytest.raises(InvalidConfiguration, match="milliseconds since 1970, 0 to"):
        seek_target(time_ms, TOPIC)
    with pytest.raises(InvalidConfiguration, match="milliseconds since 1970, 0 to"):
        seek_target(lambda _: time_ms, TOPIC)


@pytest.mark.parametrize(
    "target",
    [
        MessageId(-1, 1 << 63, 0),
        MessageId(-1, 0, 2**70),
        MessageId(1 << 31, 0, 0),
        MessageId(-1, 0, 0, 1 << 31),
        MessageId(-1, -2, 0),
    ],
)
def test_an_id_out_of_range_is_refused(target: MessageId) -> None:
    with pytest.raises(InvalidConfiguration, match="out of range"):
        seek_target(target, TOPIC)


@pytest.mark.parametrize(
    ("topic", "target"),
    [
        (TOPIC, MessageId(-1, 1, 2, topic="other")),
        (TOPIC, MessageId(-1, 1, 2, topic=PARTITION)),
        (PARTITION, MessageId(2, 1, 2, topic="t")),
        (PARTITION, MessageId(2, 1, 2, topic=f"{TOPIC}-partition-2")),
    ],
)
def test_an_id_of_another_topic_is_refused(topic: str, target: MessageId) -> None:
    with pytest.raises(InvalidConfiguration, match=r"is a message of persistent://.* cannot go"):
        seek_target(target, topic)


@pytest.mark.parametrize(
    ("topic", "target"),
    [
        (TOPIC, 0),
        (TOPIC, (1 << 63) - 1),
        (TOPIC, MessageId.earliest),
        (TOPIC, MessageId.latest),
        (TOPIC, MessageId(-1, 1, 2)),
        (TOPIC, MessageId(-1, 1, 2, topic="t")),
        (TOPIC, MessageId(-1, 1, 2, topic=TOPIC)),
        (PARTITION, MessageId(3, 1, 2, topic=PARTITION)),
        (PARTITION, MessageId(3, 1, 2, topic="t")),
        (PARTITION, MessageId(3, 1, 2)),
    ],
)
def test_an_argument_that_is_a_position_is_accepted(topic: str, target: MessageId | int) -> None:
    assert seek_target(target, topic) is target
    assert seek_target(lambda name: target if name == topic else -1, topic) is target
