"""Decide which producers may share a topic."""

from __future__ import annotations

from enum import Enum
from typing import Final

from broker.core.counted import counted
from broker.core.errors import ProducerBusy, ProducerFenced

__all__ = ["OUTBOX_PRODUCER", "AccessMode", "Admission", "admission", "next_epoch"]

OUTBOX_PRODUCER: Final = "vela-outbox"  # Clients cannot use this name

_HIGHEST_EPOCH: Final = 2**63 - 1  # Highest epoch that PostgreSQL can store
_EPOCH_AFTER_HIGHEST: Final = 2**62


class AccessMode(Enum):
    """Pulsar's access modes for producers."""

    SHARED = "Shared"
    EXCLUSIVE = "Exclusive"
    WAIT_FOR_EXCLUSIVE = "WaitForExclusive"
    EXCLUSIVE_WITH_FENCING = "ExclusiveWithFencing"


class Admission(Enum):
    """The decision about a new producer."""

    JOIN = "join"
    ALONE = "alone"
    WAIT = "wait"
    TAKE_OVER = "take over"  # All other producers are fenced


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
    """Decide how to admit a producer. Raises ProducerBusy or ProducerFenced if the producer must not join.

    `exclusive` names the producer that has exclusive access or is about to get it. `waiting` is the number of producers
    that wait for exclusive access. `known_epoch` is the topic epoch that the client remembers from an earlier
    connection.
    """
    taken = exclusive is not None or producers > 0
    if mode is AccessMode.SHARED:
        if exclusive is not None:
            raise ProducerBusy(f"{topic} has the exclusive producer {exclusive}; wait until it has closed")
        if waiting:
            raise ProducerBusy(f"{topic} is reserved: a producer waits for exclusive access; close it first")
        return Admission.JOIN
    if mode is AccessMode.EXCLUSIVE and (taken or waiting):
        if exclusive is not None:
            other = f"the exclusive producer {exclusive}"
        elif producers:
            other = counted(producers, "producer", "producers")
        else:
            other = f"{counted(waiting, 'producer', 'producers')} waiting for exclusive access"
        raise ProducerFenced(f"{topic} already has {other}")
    if mode is AccessMode.WAIT_FOR_EXCLUSIVE and taken:
        return Admission.WAIT
    if known_epoch is not None and topic_epoch is not None and known_epoch != topic_epoch:
        raise ProducerFenced(
            f"another exclusive producer took {topic}: its epoch is {topic_epoch}, not {known_epoch};"
            " open a new producer"
        )
    fences = mode is AccessMode.EXCLUSIVE_WITH_FENCING and (taken or waiting)
    return Admission.TAKE_OVER if fences else Admission.ALONE


def next_epoch(topic_epoch: int | None, known_epoch: int | None) -> int:
    """Return the epoch of a producer that gets exclusive access.

    A producer that reconnects with the topic's current epoch keeps that epoch.
    """
    if topic_epoch is None:
        return 0
    if known_epoch == topic_epoch:
        return topic_epoch
    return topic_epoch + 1 if topic_epoch < _HIGHEST_EPOCH else _EPOCH_AFTER_HIGHEST
