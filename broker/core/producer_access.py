"""Who may produce to a topic beside whom: access modes and the topic epoch (protocol 3.5)."""

from __future__ import annotations

from enum import Enum
from typing import Final

from broker.core.errors import ProducerBusy, ProducerFenced

__all__ = ["OUTBOX_PRODUCER", "AccessMode", "Admission", "admission"]

OUTBOX_PRODUCER: Final = (
    "vela-outbox"  # moves what Django code published; a client that had it would stop that
)


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
    """What a producer of this mode gets.

    `producers` are attached now, `exclusive` names the one that has the topic to itself, `waiting` wait for that.
    `topic_epoch` rises with each exclusive owner (None = there was none); `known_epoch` is the one the producer had
    when it was connected last. Raises ProducerBusy to Shared producers of a topic that is taken or waited for,
    ProducerFenced to exclusive ones that find others or come back after another owner.
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
    if known_epoch is not None and topic_epoch is not None and known_epoch < topic_epoch:
        raise ProducerFenced(
            f"{topic} had another exclusive producer meanwhile: its epoch is {topic_epoch}, not {known_epoch}"
        )
    fences = mode is AccessMode.EXCLUSIVE_WITH_FENCING and (taken or waiting)
    return Admission.TAKE_OVER if fences else Admission.ALONE
