"""Everything the client raises: one tree, and what each of the broker's refusals becomes.

The names and codes are Apache's Python client's, so that its `except` clauses go on working. Every error says in
`retriable` whether the same call, made again later and unchanged, may succeed.
"""

# Over 400 lines: one small class for each of Apache's result codes, in one table.

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
    """What became of a call: the first argument of the callback of `send_async`."""

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
    """Root of the tree. `str()` is a sentence for people; `code` and the class are for programs."""

    code: ClassVar[Result] = Result.UnknownError
    retriable: ClassVar[bool] = False  # the same call, unchanged, may succeed later

    def error(self) -> Result:
        """The code, as the exception of Apache's asyncio client names it."""
        return self.code


PulsarException = VelaError
"""What Apache's Python client calls the root."""


class UnknownError(VelaError):
    """The broker failed and did not say why, or the client did; the text has the cause."""

    code = Result.UnknownError
    retriable = True


class InvalidConfiguration(VelaError, ValueError):
    """An argument, or a combination of arguments, that cannot work; or a call that the way of consuming excludes."""

    code = Result.InvalidConfiguration


class InvalidMessageId(InvalidConfiguration, wire_errors.InvalidMessageId):
    """Bytes that are not a message id."""


class Timeout(VelaError):
    """Nothing came, or no answer came, within the time given."""

    code = Result.Timeout
    retriable = True


class LookupError(VelaError):  # noqa: A001 - the name that moves over
    """No broker could be found for the topic."""

    code = Result.LookupError
    retriable = True


class ConnectError(VelaError):
    """No connection to the broker could be made."""

    code = Result.ConnectError
    retriable = True


class HandshakeError(ConnectError):
    """Somebody answers there, but TLS, WebSocket or the protocol cannot be agreed on; it will not mend itself."""

    retriable = False


class ReadError(VelaError):
    """The connection failed while an answer was awaited."""

    code = Result.ReadError
    retriable = True


class AuthenticationError(VelaError):
    """The broker does not accept who the client says it is."""

    code = Result.AuthenticationError


class AuthorizationError(VelaError):
    """The broker knows the client and does not let it do this."""

    code = Result.AuthorizationError


class ErrorGettingAuthenticationData(VelaError):
    """The token or certificate could not be had, so that nothing was sent."""

    code = Result.ErrorGettingAuthenticationData


class BrokerMetadataError(VelaError):
    """The broker could not use the request: wrong data, or something it names does not exist."""

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
    """The subscription is taken: exclusive with a consumer, of another type, or at its limit."""

    code = Result.ConsumerBusy


class NotConnected(VelaError):
    """The consumer or producer has failed or was never opened."""

    code = Result.NotConnected
    retriable = True


class AlreadyClosed(VelaError):
    """The client, consumer, producer or reader is closed or closing."""

    code = Result.AlreadyClosed


class InvalidMessage(VelaError):
    """A message that the consumer cannot take as it is set up, such as a batch at a zero-queue consumer."""

    code = Result.InvalidMessage


class ConsumerNotInitialized(VelaError):
    """The consumer is not open."""

    code = Result.ConsumerNotInitialized


class ProducerNotInitialized(VelaError):
    """The producer is not open."""

    code = Result.ProducerNotInitialized


class ProducerBusy(VelaError):
    """The producer's name is taken, the topic is held exclusively, or a limit is reached."""

    code = Result.ProducerBusy


class TooManyLookupRequestException(VelaError):
    """Too many look-ups at once, by this client's limit or the broker's."""

    code = Result.TooManyLookupRequestException
    retriable = True


class InvalidTopicName(VelaError):
    """Not a topic's name."""

    code = Result.InvalidTopicName


class InvalidUrl(VelaError, ValueError):
    """A service URL that cannot be read. The text says what one looks like."""

    code = Result.InvalidUrl


class ServiceUnitNotReady(VelaError):
    """The topic is moving or opening; look it up again."""

    code = Result.ServiceUnitNotReady
    retriable = True


class OperationNotSupported(VelaError):
    """This consumer, producer, topic or broker does not do that."""

    code = Result.OperationNotSupported


class ProducerBlockedQuotaExceededError(VelaError):
    """The topic's backlog quota is reached: a producer waits until there is room again."""

    code = Result.ProducerBlockedQuotaExceededError


class ProducerBlockedQuotaExceededException(VelaError):
    """The topic's backlog quota is reached: producers are refused and what they have not sent fails."""

    code = Result.ProducerBlockedQuotaExceededException


class ProducerQueueIsFull(VelaError):
    """As many messages as `max_pending_messages` allows await their receipt."""

    code = Result.ProducerQueueIsFull
    retriable = True


class MessageTooBig(VelaError):
    """A message larger than the broker takes. Send it with `chunking_enabled=True`."""

    code = Result.MessageTooBig


class TopicNotFound(VelaError):
    """The topic does not exist and is not made by being used."""

    code = Result.TopicNotFound


class SubscriptionNotFound(VelaError):
    """The subscription does not exist and is not made by being used."""

    code = Result.SubscriptionNotFound


class ConsumerNotFound(VelaError):
    """The broker does not know this consumer."""

    code = Result.ConsumerNotFound


class UnsupportedVersionError(VelaError):
    """Client and broker are too far apart for this call."""

    code = Result.UnsupportedVersionError


class TopicTerminated(VelaError):
    """The topic takes no more messages, for good."""

    code = Result.TopicTerminated


class CryptoError(VelaError):
    """A payload could not be encrypted or decrypted: no key, a wrong key, or changed bytes."""

    code = Result.CryptoError


class IncompatibleSchema(VelaError):
    """The schema does not go with the one that the topic has."""

    code = Result.IncompatibleSchema


class ConsumerAssignError(VelaError):
    """The key ranges that a Key_Shared consumer asks for are another's."""

    code = Result.ConsumerAssignError


class CumulativeAcknowledgementNotAllowedError(VelaError):
    """On Shared and Key_Shared subscriptions messages are acknowledged one by one."""

    code = Result.CumulativeAcknowledgementNotAllowedError


class TransactionCoordinatorNotFoundError(VelaError):
    """Transactions are not built; the class is here so that code that names it imports."""

    code = Result.TransactionCoordinatorNotFoundError


class InvalidTxnStatusError(VelaError):
    """Transactions are not built; the class is here so that code that names it imports."""

    code = Result.InvalidTxnStatusError


class NotAllowedError(VelaError):
    """The broker has this switched off, or the request is over one of its limits."""

    code = Result.NotAllowedError


class TransactionConflict(VelaError):
    """Transactions are not built; the class is here so that code that names it imports."""

    code = Result.TransactionConflict


class TransactionNotFound(VelaError):
    """Transactions are not built; the class is here so that code that names it imports."""

    code = Result.TransactionNotFound


class ProducerFenced(VelaError):
    """Another producer has the topic for itself. One that had it, or waited for it, is dead for good: make another."""

    code = Result.ProducerFenced


class MemoryBufferIsFull(VelaError):
    """The client's memory limit is reached."""

    code = Result.MemoryBufferIsFull
    retriable = True


class Interrupted(VelaError):
    """The wait was given up because the client is stopping."""

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
"""What each of the broker's refusals is raised as (protocol 2.2)."""


def from_server_error(error: int, message: str) -> VelaError:
    """The broker's refusal as an exception; a number this client does not know becomes UnknownError."""
    known = BY_SERVER_ERROR.get(ServerError(error)) if error in _SERVER_ERRORS else None
    return (known or UnknownError)(message)


_SERVER_ERRORS: Final = frozenset(int(error) for error in ServerError)
