"""Errors that the broker sends to clients."""

from __future__ import annotations

from typing import ClassVar


class BrokerError(Exception):
    """Base class of errors that may reach a client."""

    # Name of a Pulsar ServerError. For any other name, Pulsar clients get UnknownError.
    code: ClassVar[str] = "UnknownError"
    retriable: ClassVar[bool] = False  # Whether the same request may succeed later


class TopicNotFound(BrokerError):
    code = "TopicNotFound"


class InvalidTopicName(BrokerError):
    code = "InvalidTopicName"


class TopicTerminated(BrokerError):
    code = "TopicTerminatedError"


class TopicFenced(BrokerError):
    """The topic moved to another broker or is no longer loaded."""

    code = "ServiceNotReady"
    retriable = True


class SubscriptionNotFound(BrokerError):
    code = "SubscriptionNotFound"


class SubscriptionBusy(BrokerError):
    """The request conflicts with connected consumers or with a cursor move."""

    code = "ConsumerBusy"
    retriable = True


class ConsumerBusy(BrokerError):
    """The limit of consumers is reached, or an Exclusive consumer is connected."""

    code = "ConsumerBusy"
    retriable = True


class ConsumerAssignFailed(BrokerError):
    """A consumer cannot have the hash ranges it asks for, or no range is left."""

    code = "ConsumerAssignError"


class ConsumerNotFound(BrokerError):
    code = "ConsumerNotFound"


class ProducerBusy(BrokerError):
    code = "ProducerBusy"
    retriable = True


class ProducerFenced(BrokerError):
    code = "ProducerFenced"


class NotAllowed(BrokerError):
    code = "NotAllowedError"


class IncompatibleSchema(BrokerError):
    """A schema is invalid or incompatible with the topic's schemas, or a payload does not match its schema."""

    code = "IncompatibleSchema"


class SchemaNotFound(BrokerError):
    code = "TopicNotFound"


class InvalidAck(BrokerError):
    """An ack names an entry that was never stored."""

    code = "MetadataError"


class InvalidFlow(BrokerError):
    """A client granted fewer than one permit."""

    code = "MetadataError"


class UnsupportedVersion(BrokerError):
    """The client's protocol version is too old to read the topic's batches."""

    code = "UnsupportedVersionError"


class MessageTooLarge(BrokerError):
    code = "NotAllowedError"


class ChecksumFailed(BrokerError):
    code = "ChecksumError"
    retriable = True


class MetadataInvalid(BrokerError):
    code = "MetadataError"


class PersistenceFailed(BrokerError):
    code = "PersistenceError"
    retriable = True


class SendOutcomeUnknown(BrokerError):
    """Nobody knows whether the message was stored. A client that repeats the send may store the message twice."""

    code = "ServiceNotReady"
    retriable = True


class ServiceNotReady(BrokerError):
    code = "ServiceNotReady"
    retriable = True


class QuotaExceeded(BrokerError):
    """A backlog exceeds its quota, and the policy is to return an error."""

    code = "ProducerBlockedQuotaExceededException"


class QuotaHold(BrokerError):
    """A backlog exceeds its quota, and the policy is to make producers wait."""

    code = "ProducerBlockedQuotaExceededError"
    retriable = True


class TooManyRequests(BrokerError):
    code = "TooManyRequests"
    retriable = True


class TooManyConnections(TooManyRequests):
    """The process or the client's address has reached its limit of connections."""


class TooManyLookups(TooManyRequests):
    """The connection has reached its limit of unanswered lookups."""


class TooManyProducers(NotAllowed):
    """The connection has reached its limit of producers."""


class TooManyConsumers(NotAllowed):
    """The connection has reached its limit of consumers."""


class TooManyTopicWatchers(NotAllowed):
    """The connection has reached its limit of watched topic lists."""


class AnswerTooLarge(NotAllowed):
    """The answer does not fit into the largest frame that clients accept."""


class AuthenticationFailed(BrokerError):
    code = "AuthenticationError"


class NotAuthorized(BrokerError):
    code = "AuthorizationError"
