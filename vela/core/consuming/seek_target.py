"""The target of a seek, checked before the client asks the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vela.core.topic_name import full_name, partition_name
from vela.errors import InvalidConfiguration
from vela.message import MessageId

__all__ = ["Position", "seek_target"]

Position = MessageId | int | Callable[[str], MessageId | int]

_ENDS: Final = (MessageId.earliest, MessageId.latest)
_LONG: Final = 1 << 63
_INT: Final = 1 << 31


def seek_target(position: Position, topic: str) -> MessageId | int:
    """Return the message or time (milliseconds since 1970) that `position` means for a topic or partition (full name).

    Raises InvalidConfiguration for anything else, for a time or an id out of range, and for an id of another topic. If
    `position` is a function, raises its errors.
    """
    target = position(topic) if callable(position) else position
    if isinstance(target, bool) or not isinstance(target, int | MessageId):
        raise InvalidConfiguration(
            f"seek takes a message id or a whole number of milliseconds since 1970, not {target!r}"
        )
    if isinstance(target, MessageId):
        _check_id(target, topic)
    elif not 0 <= target < _LONG:
        raise InvalidConfiguration(f"seek takes milliseconds since 1970, 0 to 2^63 - 1, not {target}")
    return target


def _check_id(target: MessageId, topic: str) -> None:
    places = (
        (target.ledger_id(), _LONG),
        (target.entry_id(), _LONG),
        (target.partition(), _INT),
        (target.batch_index(), _INT),
    )
    if not all(-1 <= number < limit for number, limit in places):
        raise InvalidConfiguration(f"{target!r} is out of range: no message has such an id")
    of = target.topic_name()
    if not of or target in _ENDS:
        return
    of = full_name(of)
    if topic not in (of, partition_name(of, target.partition())):
        raise InvalidConfiguration(
            f"{target!r} is a message of {of}: a subscription of {topic} cannot go there"
        )
