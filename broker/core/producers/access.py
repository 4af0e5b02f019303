"""Which producers may share a topic: access modes and the topic epoch."""

from __future__ import annotations

from enum import Enum
from typing import Final

from broker.core.errors import ProducerBusy, ProducerFenced

__all__ = ["OUTBOX_PRODUCER", "AccessMode", "Admission", "admission", "next_epoch"]

OUTBOX_PRODUCER: Final = (
    "vela-outbox"  # moves what Django code published; a client that had it would stop that
)

_HIGHEST_EPOCH: Final = 2**63 - 1  # that PostgreSQL can store
_EPOCH_AFTER_HIGHEST: Final = 2**62  # counting exclusive producers from 0 never comes near it


class AccessMode(Enum):
    """How a producer shares its topic; values are Pulsar's names."""

    SHARED = "Shared"
    EXCLUSIVE = "Exclusive"
    WAIT_FOR_EXCLUSIVE = "WaitForExclusive"
    EXCLUSIVE_WITH_FENCING = "ExclusiveWithFencing"


class Admission(Enum):
    """What becomes of a producer that asks to be admitted."""

    JOIN = "join"  # beside the others
    ALONE = "alone"  # as the only one
    WAIT = "wait"  # until the others are gone
    TAKE_OVER = "take over"  # the others, and those who wait, are fenced


def admission(
    mode: AccessMode,
    *,
    topic: str,
    producers: int,
    exclusive: str | None,
    waiting: int,
    topic_epoch: int | None,
    known_epoch: int | None,
) -> Admission:
    """Decide what becomes of a producer of this mode.

    `producers` are attached now, `exclusive` names the one that has the topic to itself, `waiting` wait for that.
    `topic_epoch` rises with each exclusive owner (None = there was none). `known_epoch` is what the client says it was
    given when it was connected last. A client has no other source for it, so an epoch that is not the topic's own,
    lower or higher, belongs to a producer that lost the topic.

    Raises ProducerBusy if a Shared producer finds the topic taken or waited for, and ProducerFenced if an exclusive
    one finds others or comes back after another owner.
    """
    taken = exclusive is not None or producers > 0
    if mode is AccessMode.SHARED:
        if exclusive is not None or waiting:
            who = "has" if exclusive is not None else "is waited for by"
            raise ProducerBusy(f"{topic} {who} an exclusive producer; close it, or wait until it is gone")
        return Admission.JOIN
    if mode is AccessMode.EXCLUSIVE and (taken or waiting):
        other = f"the exclusive producer {exclusive}" if exclusive is not None else f"{producers} producers"
        raise ProducerFenced(f"{topic} has {other if taken else 'producers that wait for it'} already")
    if mode is AccessMode.WAIT_FOR_EXCLUSIVE and taken:
        return Admission.WAIT
    if known_epoch is not None and topic_epoch is not None and known_epoch != topic_epoch:
        raise ProducerFenced(
            f"{topic} had another exclusive producer meanwhile: its epoch is {topic_epoch}, not {known_epoch};"
            " open a new producer"
        )
    fences = mode is AccessMode.EXCLUSIVE_WITH_FENCING and (taken or waiting)
    return Admission.TAKE_OVER if fences else Admission.ALONE


def next_epoch(topic_epoch: int | None, known_epoch: int | None) -> int:
    """Return the epoch of a producer that gets the topic to itself.

    A producer that comes back with the topic's own epoch keeps it; every other one gets an epoch that no producer was
    given before. An earlier version stored what a client claimed: a topic left at the highest epoch goes on from
    the middle of the range.
    """
    if topic_epoch is None:
        return 0
    if known_epoch == topic_epoch:
        return topic_epoch
    return topic_epoch + 1 if topic_epoch < _HIGHEST_EPOCH else _EPOCH_AFTER_HIGHEST
