"""What the broker can refuse, with the code that a Pulsar client knows.

`code` is the name of Pulsar's ServerError where one fits. `retriable`: the same request may succeed later
without a change. `fatal`: the connection or session that asked cannot go on.
"""

from __future__ import annotations

from typing import ClassVar


class BrokerError(Exception):
    """Root of every refusal that may reach a client; the message says what to change."""

    code: ClassVar[str] = "UnknownError"
    retriable: ClassVar[bool] = False
    fatal: ClassVar[bool] = False


class TopicNotFound(BrokerError):
    code = "TopicNotFound"


class InvalidTopicName(BrokerError):
    code = "InvalidTopicName"


class TopicTerminated(BrokerError):
    code = "TopicTerminatedError"


class TopicFenced(BrokerError):
    """Another owner took the topic, or it is being moved: reconnect and look it up again."""

    code = "ServiceNotReady"
    retriable = True
    fatal = True


class SubscriptionNotFound(BrokerError):
    code = "SubscriptionNotFound"


class SubscriptionBusy(BrokerError):
    """Consumers of another type are connected, or the cursor is being reset (semantics 3.1)."""

    code = "ConsumerBusy"
    retriable = True


class ConsumerBusy(BrokerError):
    """No room for another consumer (semantics 3.1)."""

    code = "ConsumerBusy"
    retriable = True


class ConsumerAssignFailed(BrokerError):
    """The hash ranges of a sticky Key_Shared consumer cannot be given to it (semantics 3.4)."""

    code = "ConsumerAssignError"


class ConsumerNotFound(BrokerError):
    code = "ConsumerNotFound"


class ProducerBusy(BrokerError):
    code = "ProducerBusy"
    retriable = True


class ProducerFenced(BrokerError):
    code = "ProducerFenced"
    fatal = True


class NotAllowed(BrokerError):
    code = "NotAllowedError"


class IncompatibleSchema(BrokerError):
    """A schema that may not follow those of its topic, or is none."""

    code = "IncompatibleSchema"


class SchemaNotFound(BrokerError):
    code = "TopicNotFound"


class InvalidAck(BrokerError):
    """An ack names an entry that is not stored, or a batch of another size."""

    code = "MetadataError"


class InvalidFlow(BrokerError):
    """A grant of no permits, or of fewer."""

    code = "MetadataError"
    fatal = True


class UnsupportedVersion(BrokerError):
    """The client's protocol version cannot carry what the topic holds."""

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
    """The topic went away before it answered: the entry may be stored or not, and sent again may be stored twice."""

    code = "ServiceNotReady"
    retriable = True


class ServiceNotReady(BrokerError):
    code = "ServiceNotReady"
    retriable = True


class QuotaExceeded(BrokerError):
    """The backlog quota stops producers; code as for policy producer_exception."""

    code = "ProducerBlockedQuotaExceededException"


class QuotaHold(BrokerError):
    """The backlog quota makes producers wait: clients keep trying; policy producer_request_hold."""

    code = "ProducerBlockedQuotaExceededError"
    retriable = True


class TooManyRequests(BrokerError):
    code = "TooManyRequests"
    retriable = True


class AuthenticationFailed(BrokerError):
    code = "AuthenticationError"
    fatal = True


class NotAuthorized(BrokerError):
    code = "AuthorizationError"
