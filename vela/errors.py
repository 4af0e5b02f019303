"""The errors of the client, and the class for each of the broker's error codes.

It keeps the names and codes of Apache's Python client, so that existing `except` clauses still work.
"""

# Over 400 lines, because it has one small class for each of Apache's result codes.

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final

from vela.named_numbers import NamedNumber
from vela.wire import errors as wire_errors
from vela.wire.binary.enums import ServerError

__all__ = [
    "BY_RESULT",
    "BY_SERVER_ERROR",
    "AlreadyClosed",
    "AuthenticationError",
    "AuthorizationError",
    "BrokerMetadataError",
    "BrokerPersistenceError",
    "ChecksumError",
    "ConnectError",
    "ConsumerAssignError",
    "ConsumerBusy",
    "ConsumerNotFound",
    "ConsumerNotInitialized",
    "CryptoError",
    "CumulativeAcknowledgementNotAllowedError",
    "ErrorGettingAuthenticationData",
    "HandshakeError",
    "IncompatibleSchema",
    "Interrupted",
    "InvalidConfiguration",
    "InvalidMessage",
    "InvalidMessageId",
    "InvalidTopicName",
    "InvalidTxnStatusError",
    "InvalidUrl",
    "LookupError",
    "MemoryBufferIsFull",
    "MessageTooBig",
    "NotAllowedError",
    "NotConnected",
    "OperationNotSupported",
    "ProducerBlockedQuotaExceededError",
    "ProducerBlockedQuotaExceededException",
    "ProducerBusy",
    "ProducerFenced",
    "ProducerNotInitialized",
    "ProducerQueueIsFull",
    "PulsarException",
    "ReadError",
    "Result",
    "ServiceUnitNotReady",
    "SubscriptionNotFound",
    "Timeout",
    "TooManyLookupRequestException",
    "TopicNotFound",
    "TopicTerminated",
    "TransactionConflict",
    "TransactionCoordinatorNotFoundError",
    "TransactionNotFound",
    "UnknownError",
    "UnsupportedVersionError",
    "VelaError",
    "from_server_error",
]


class Result(NamedNumber):
    """The result of a call: the first argument of the callbacks of `send_async` and `receive_async`."""

    Ok = 0
    UnknownError = 1
    InvalidConfiguration = 2
    Timeout = 3
    LookupError = 4
    ConnectError = 5
    ReadError = 6
    AuthenticationError = 7
    AuthorizationError = 8
    ErrorGettingAuthenticationData = 9
    BrokerMetadataError = 10
    BrokerPersistenceError = 11
    ChecksumError = 12
    ConsumerBusy = 13
    NotConnected = 14
    AlreadyClosed = 15
    InvalidMessage = 16
    ConsumerNotInitialized = 17
    ProducerNotInitialized = 18
    ProducerBusy = 19
    TooManyLookupRequestException = 20
    InvalidTopicName = 21
    InvalidUrl = 22
    ServiceUnitNotReady = 23
    OperationNotSupported = 24
    ProducerBlockedQuotaExceededError = 25
    ProducerBlockedQuotaExceededException = 26
    ProducerQueueIsFull = 27
    MessageTooBig = 28
    TopicNotFound = 29
    SubscriptionNotFound = 30
    ConsumerNotFound = 31
    UnsupportedVersionError = 32
    TopicTerminated = 33
    CryptoError = 34
    IncompatibleSchema = 35
    ConsumerAssignError = 36
    CumulativeAcknowledgementNotAllowedError = 37
    TransactionCoordinatorNotFoundError = 38
    InvalidTxnStatusError = 39
    NotAllowedError = 40
    TransactionConflict = 41
    TransactionNotFound = 42
    ProducerFenced = 43
    MemoryBufferIsFull = 44
    Interrupted = 45


class VelaError(Exception):
    """The base of all errors. `str()` is a sentence for users; `code` and the class are for programs."""

    code: ClassVar[Result] = Result.UnknownError
    retriable: ClassVar[bool] = False  # the same call, unchanged, may succeed later

    def error(self) -> Result:
        """Return the code, as the exception of Apache's asyncio client does."""
        return self.code


PulsarException = VelaError
"""The base error's name in Apache's Python client."""


class UnknownError(VelaError):
    """The broker or the client failed for a reason that has no class here; the message names the cause."""

    code = Result.UnknownError
    retriable = True


class InvalidConfiguration(VelaError, ValueError):
    """An argument or a combination of arguments cannot work, or the consumer's configuration excludes this call."""

    code = Result.InvalidConfiguration


class InvalidMessageId(InvalidConfiguration, wire_errors.InvalidMessageId):
    """The bytes are not a message id."""


class Timeout(VelaError):
    """No message, or no answer, arrived in time."""

    code = Result.Timeout
    retriable = True


class LookupError(VelaError):  # noqa: A001 - the name in Apache's client
    """The client could not find a broker for the topic."""

    code = Result.LookupError
    retriable = True


class ConnectError(VelaError):
    """The client could not connect to the broker, or the broker does not answer any more."""

    code = Result.ConnectError
    retriable = True


class HandshakeError(ConnectError):
    """A server answers, but the handshake of TLS, WebSocket or Pulsar's protocol fails. Retrying does not help."""

    retriable = False


class ReadError(VelaError):
    """The connection failed while the client waited for an answer."""

    code = Result.ReadError
    retriable = True


class AuthenticationError(VelaError):
    """The broker does not accept the client's credentials."""

    code = Result.AuthenticationError


class AuthorizationError(VelaError):
    """The client is not allowed to do this."""

    code = Result.AuthorizationError


class ErrorGettingAuthenticationData(VelaError):
    """The client could not get the credentials to send."""

    code = Result.ErrorGettingAuthenticationData


class BrokerMetadataError(VelaError):
    """The request has wrong data, or names something that does not exist."""

    code = Result.BrokerMetadataError
    retriable = True


class BrokerPersistenceError(VelaError):
    """The broker's storage failed."""

    code = Result.BrokerPersistenceError
    retriable = True


class ChecksumError(VelaError):
    """The bytes of a message changed on their way to the broker."""

    code = Result.ChecksumError


class ConsumerBusy(VelaError):
    """The subscription cannot do this now, for example because an Exclusive consumer is connected."""

    code = Result.ConsumerBusy


class NotConnected(VelaError):
    """The consumer has no connection now, has failed, or was never opened."""

    code = Result.NotConnected
    retriable = True


class AlreadyClosed(VelaError):
    """The client, consumer, producer or reader is closed or closing."""

    code = Result.AlreadyClosed


class InvalidMessage(VelaError):
    """The consumer's configuration excludes this message, for example a batch at a zero-queue consumer."""

    code = Result.InvalidMessage


class ConsumerNotInitialized(VelaError):
    """The consumer is not open."""

    code = Result.ConsumerNotInitialized


class ProducerNotInitialized(VelaError):
    """Never raised. The class exists so that code which imports it still works."""

    code = Result.ProducerNotInitialized


class ProducerBusy(VelaError):
    """The producer's name is taken, another producer has exclusive access, or a limit is reached."""

    code = Result.ProducerBusy


class TooManyLookupRequestException(VelaError):
    """The client or the broker has reached a limit, for example that of concurrent lookups."""

    code = Result.TooManyLookupRequestException
    retriable = True


class InvalidTopicName(VelaError):
    """The string is not a topic name."""

    code = Result.InvalidTopicName


class InvalidUrl(VelaError, ValueError):
    """The service URL is invalid."""

    code = Result.InvalidUrl


class ServiceUnitNotReady(VelaError):
    """The topic or the broker is not ready, for example because the topic is being moved."""

    code = Result.ServiceUnitNotReady
    retriable = True


class OperationNotSupported(VelaError):
    """This consumer, producer, topic or broker does not support the operation."""

    code = Result.OperationNotSupported


class ProducerBlockedQuotaExceededError(VelaError):
    """The topic's backlog quota is reached. Open producers wait until there is room again; new ones are refused."""

    code = Result.ProducerBlockedQuotaExceededError


class ProducerBlockedQuotaExceededException(VelaError):
    """The topic's backlog quota is reached. The broker refuses producers, and their unsent messages fail."""

    code = Result.ProducerBlockedQuotaExceededException


class ProducerQueueIsFull(VelaError):
    """`max_pending_messages` messages already wait for their receipts."""

    code = Result.ProducerQueueIsFull
    retriable = True


class MessageTooBig(VelaError):
    """The message is too large. If its payload is, create the producer with `chunking_enabled=True`."""

    code = Result.MessageTooBig


class TopicNotFound(VelaError):
    """The topic does not exist, and the broker does not create it automatically."""

    code = Result.TopicNotFound


class SubscriptionNotFound(VelaError):
    """The subscription does not exist, and the broker does not create it automatically."""

    code = Result.SubscriptionNotFound


class ConsumerNotFound(VelaError):
    """The broker does not know this consumer."""

    code = Result.ConsumerNotFound


class UnsupportedVersionError(VelaError):
    """The versions of client and broker are too different for this call."""

    code = Result.UnsupportedVersionError


class TopicTerminated(VelaError):
    """The topic is terminated: it accepts no more messages."""

    code = Result.TopicTerminated


class CryptoError(VelaError):
    """A payload could not be encrypted or decrypted: the key is missing or wrong, or the bytes have changed."""

    code = Result.CryptoError


class IncompatibleSchema(VelaError):
    """The schema is invalid, or not compatible with the topic's schemas."""

    code = Result.IncompatibleSchema


class ConsumerAssignError(VelaError):
    """A Key_Shared consumer cannot have the key ranges it asks for, or no range is left for it."""

    code = Result.ConsumerAssignError


class CumulativeAcknowledgementNotAllowedError(VelaError):
    """Shared and Key_Shared subscriptions do not allow cumulative acknowledgements."""

    code = Result.CumulativeAcknowledgementNotAllowedError


class TransactionCoordinatorNotFoundError(VelaError):
    """Vela has no transactions. The class exists so that code which imports it still works."""

    code = Result.TransactionCoordinatorNotFoundError


class InvalidTxnStatusError(VelaError):
    """Vela has no transactions. The class exists so that code which imports it still works."""

    code = Result.InvalidTxnStatusError


class NotAllowedError(VelaError):
    """The broker's configuration does not allow this, or the request exceeds one of its limits."""

    code = Result.NotAllowedError


class TransactionConflict(VelaError):
    """Vela has no transactions. The class exists so that code which imports it still works."""

    code = Result.TransactionConflict


class TransactionNotFound(VelaError):
    """Vela has no transactions. The class exists so that code which imports it still works."""

    code = Result.TransactionNotFound


class ProducerFenced(VelaError):
    """This producer cannot get, or has lost, exclusive access to the topic. It cannot be used again: create another."""

    code = Result.ProducerFenced


class MemoryBufferIsFull(VelaError):
    """Never raised: the memory limit is for consumers. The class exists so that code which imports it still works."""

    code = Result.MemoryBufferIsFull


class Interrupted(VelaError):
    """The wait ended because the client is stopping."""

    code = Result.Interrupted


BY_RESULT: Final[Mapping[Result, type[VelaError]]] = MappingProxyType(
    {error.code: error for error in VelaError.__subclasses__()}
)
"""The class of each code except `Ok`."""

BY_SERVER_ERROR: Final[Mapping[ServerError, type[VelaError]]] = MappingProxyType(
    {
        ServerError.UNKNOWN_ERROR: UnknownError,
        ServerError.METADATA_ERROR: BrokerMetadataError,
        ServerError.PERSISTENCE_ERROR: BrokerPersistenceError,
        ServerError.AUTHENTICATION_ERROR: AuthenticationError,
        ServerError.AUTHORIZATION_ERROR: AuthorizationError,
        ServerError.CONSUMER_BUSY: ConsumerBusy,
        ServerError.SERVICE_NOT_READY: ServiceUnitNotReady,
        ServerError.PRODUCER_BLOCKED_QUOTA_EXCEEDED_ERROR: ProducerBlockedQuotaExceededError,
        ServerError.PRODUCER_BLOCKED_QUOTA_EXCEEDED_EXCEPTION: ProducerBlockedQuotaExceededException,
        ServerError.CHECKSUM_ERROR: ChecksumError,
        ServerError.UNSUPPORTED_VERSION_ERROR: UnsupportedVersionError,
        ServerError.TOPIC_NOT_FOUND: TopicNotFound,
        ServerError.SUBSCRIPTION_NOT_FOUND: SubscriptionNotFound,
        ServerError.CONSUMER_NOT_FOUND: ConsumerNotFound,
        ServerError.TOO_MANY_REQUESTS: TooManyLookupRequestException,
        ServerError.TOPIC_TERMINATED_ERROR: TopicTerminated,
        ServerError.PRODUCER_BUSY: ProducerBusy,
        ServerError.INVALID_TOPIC_NAME: InvalidTopicName,
        ServerError.INCOMPATIBLE_SCHEMA: IncompatibleSchema,
        ServerError.CONSUMER_ASSIGN_ERROR: ConsumerAssignError,
        ServerError.TRANSACTION_COORDINATOR_NOT_FOUND: TransactionCoordinatorNotFoundError,
        ServerError.INVALID_TXN_STATUS: InvalidTxnStatusError,
        ServerError.NOT_ALLOWED_ERROR: NotAllowedError,
        ServerError.TRANSACTION_CONFLICT: TransactionConflict,
        ServerError.TRANSACTION_NOT_FOUND: TransactionNotFound,
        ServerError.PRODUCER_FENCED: ProducerFenced,
    }
)
"""The error class for each of the broker's error codes."""


def from_server_error(error: int, message: str) -> VelaError:
    """Return the broker's refusal as an exception. A number that this client does not know becomes UnknownError."""
    known = BY_SERVER_ERROR.get(ServerError(error)) if error in _SERVER_ERRORS else None
    return (known or UnknownError)(message)


_SERVER_ERRORS: Final = frozenset(int(error) for error in ServerError)
