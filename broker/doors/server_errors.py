"""The broker's errors as codes of the binary protocol, and as HTTP statuses."""

from __future__ import annotations

from typing import Final

from broker.core.errors import BrokerError
from vela.wire.binary.enums import ServerError

__all__ = ["http_status", "server_error"]

_SERVER_ERRORS: Final[dict[str, ServerError]] = {
    "UnknownError": ServerError.UNKNOWN_ERROR,
    "MetadataError": ServerError.METADATA_ERROR,
    "PersistenceError": ServerError.PERSISTENCE_ERROR,
    "AuthenticationError": ServerError.AUTHENTICATION_ERROR,
    "AuthorizationError": ServerError.AUTHORIZATION_ERROR,
    "ConsumerBusy": ServerError.CONSUMER_BUSY,
    "ServiceNotReady": ServerError.SERVICE_NOT_READY,
    "ProducerBlockedQuotaExceededError": ServerError.PRODUCER_BLOCKED_QUOTA_EXCEEDED_ERROR,
    "ProducerBlockedQuotaExceededException": ServerError.PRODUCER_BLOCKED_QUOTA_EXCEEDED_EXCEPTION,
    "ChecksumError": ServerError.CHECKSUM_ERROR,
    "TopicNotFound": ServerError.TOPIC_NOT_FOUND,
    "SubscriptionNotFound": ServerError.SUBSCRIPTION_NOT_FOUND,
    "ConsumerAssignError": ServerError.CONSUMER_ASSIGN_ERROR,
    "ConsumerNotFound": ServerError.CONSUMER_NOT_FOUND,
    "TooManyRequests": ServerError.TOO_MANY_REQUESTS,
    "TopicTerminatedError": ServerError.TOPIC_TERMINATED_ERROR,
    "ProducerBusy": ServerError.PRODUCER_BUSY,
    "InvalidTopicName": ServerError.INVALID_TOPIC_NAME,
    "NotAllowedError": ServerError.NOT_ALLOWED_ERROR,
    "IncompatibleSchema": ServerError.INCOMPATIBLE_SCHEMA,
    "ProducerFenced": ServerError.PRODUCER_FENCED,
    "UnsupportedVersionError": ServerError.UNSUPPORTED_VERSION_ERROR,
}
# Pulsar's statuses for refused WebSocket handshakes, by error code.
_HTTP_STATUSES: Final[dict[str, int]] = {
    "AuthenticationError": 401,
    "AuthorizationError": 403,
    "ConsumerAssignError": 400,
    "ConsumerBusy": 409,
    "IncompatibleSchema": 409,
    "InvalidTopicName": 400,
    "NotAllowedError": 400,
    "ProducerBlockedQuotaExceededError": 503,
    "ProducerBlockedQuotaExceededException": 503,
    "ProducerBusy": 409,
    "ProducerFenced": 409,
    "ServiceNotReady": 503,
    "SubscriptionNotFound": 404,
    "TooManyRequests": 429,
    "TopicNotFound": 404,
    "TopicTerminatedError": 503,
}


def server_error(error: BrokerError) -> ServerError:
    """Return the error's code in the binary protocol."""
    return _SERVER_ERRORS.get(error.code, ServerError.UNKNOWN_ERROR)


def http_status(error: BrokerError) -> int:
    """Return the error's HTTP status. The admin API uses other statuses."""
    return _HTTP_STATUSES.get(error.code, 500)
