"""The HTTP statuses of refusals in the admin API, as in Pulsar."""

from __future__ import annotations

from typing import Final

from broker.acts.kinds.base import ActConflict, ActExpired, PartlyDone
from broker.acts.kinds.parameters import ActInvalid, AlreadySo, NothingToActOn
from broker.core.errors import (
    AuthenticationFailed,
    BrokerError,
    IncompatibleSchema,
    InvalidTopicName,
    MetadataInvalid,
    NotAllowed,
    NotAuthorized,
    ProducerBusy,
    ProducerFenced,
    QuotaExceeded,
    QuotaHold,
    SchemaNotFound,
    ServiceNotReady,
    SubscriptionBusy,
    SubscriptionNotFound,
    TooManyRequests,
    TopicFenced,
    TopicNotFound,
    TopicTerminated,
)
from broker.core.policies import PolicyInvalid
from broker.topics.compaction.compactor import CompactionBusy
from broker.topics.ending import TopicBusy
from broker.topics.policies import PolicyConflict

__all__ = ["Refused", "status_of"]

# The first class that matches an error decides the status.
_STATUSES: Final[tuple[tuple[type[BrokerError], int], ...]] = (
    (AuthenticationFailed, 401),
    (NotAuthorized, 403),
    (NothingToActOn, 404),
    (TopicNotFound, 404),
    (SubscriptionNotFound, 404),
    (SchemaNotFound, 404),
    (TopicBusy, 412),
    (NotAllowed, 405),
    (ActConflict, 409),
    (AlreadySo, 409),
    (PolicyConflict, 409),
    (IncompatibleSchema, 409),
    (ProducerBusy, 409),
    (ProducerFenced, 409),
    (CompactionBusy, 409),
    (TopicTerminated, 412),
    (QuotaExceeded, 503),
    (QuotaHold, 503),
    (SubscriptionBusy, 412),
    (ActInvalid, 412),
    (InvalidTopicName, 412),
    (MetadataInvalid, 412),
    (PolicyInvalid, 412),
    (TooManyRequests, 429),
    (ServiceNotReady, 503),
    (TopicFenced, 503),
    (ActExpired, 503),
    (PartlyDone, 500),
)


class Refused(Exception):
    """A refusal of the request, with an HTTP status and a reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def status_of(error: BrokerError) -> int:
    """Return the HTTP status of an error, which is 500 by default."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
