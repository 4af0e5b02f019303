"""The protocol's enumerations, as callers of the engine see them."""

from __future__ import annotations

import enum

__all__ = ["AccessMode", "InitialPosition", "ServerError", "SubType", "TopicsMode", "ValidationError"]


class ServerError(enum.IntEnum):
    """Why the broker refused. The comments say what Apache's C++ and Python clients then do.

    "Fatal" means that they do not try again; "at creation" means when a consumer or producer is created.
    """

    UNKNOWN_ERROR = 0  # retried
    METADATA_ERROR = 1  # retried at creation
    PERSISTENCE_ERROR = 2  # retried
    AUTHENTICATION_ERROR = 3  # fatal
    AUTHORIZATION_ERROR = 4  # fatal
    CONSUMER_BUSY = 5  # fatal
    SERVICE_NOT_READY = 6  # retried; after a lookup the connection is also dropped
    PRODUCER_BLOCKED_QUOTA_EXCEEDED_ERROR = 7  # fatal at creation; later retried
    PRODUCER_BLOCKED_QUOTA_EXCEEDED_EXCEPTION = 8  # fatal at creation; later pending sends fail
    CHECKSUM_ERROR = 9  # that message fails
    UNSUPPORTED_VERSION_ERROR = 10
    TOPIC_NOT_FOUND = 11  # fatal
    SUBSCRIPTION_NOT_FOUND = 12  # retried until the operation timeout
    CONSUMER_NOT_FOUND = 13
    TOO_MANY_REQUESTS = 14  # the connection is closed
    TOPIC_TERMINATED_ERROR = 15  # fatal for producers
    PRODUCER_BUSY = 16  # fatal
    INVALID_TOPIC_NAME = 17
    INCOMPATIBLE_SCHEMA = 18  # fatal
    CONSUMER_ASSIGN_ERROR = 19  # fatal
    TRANSACTION_COORDINATOR_NOT_FOUND = 20
    INVALID_TXN_STATUS = 21
    NOT_ALLOWED_ERROR = 22  # fatal
    TRANSACTION_CONFLICT = 23
    TRANSACTION_NOT_FOUND = 24
    PRODUCER_FENCED = 25  # the producer cannot be used again


class AccessMode(enum.IntEnum):
    """How a producer shares its topic."""

    SHARED = 0
    EXCLUSIVE = 1
    WAIT_FOR_EXCLUSIVE = 2
    EXCLUSIVE_WITH_FENCING = 3


class SubType(enum.IntEnum):
    """Subscription types."""

    EXCLUSIVE = 0
    SHARED = 1
    FAILOVER = 2
    KEY_SHARED = 3


class InitialPosition(enum.IntEnum):
    """The position at which a new subscription begins."""

    LATEST = 0
    EARLIEST = 1


class ValidationError(enum.IntEnum):
    """Why a consumer discarded a message."""

    UNCOMPRESSED_SIZE_CORRUPTION = 0
    DECOMPRESSION_ERROR = 1
    CHECKSUM_MISMATCH = 2
    BATCH_DESERIALIZE_ERROR = 3
    DECRYPTION_ERROR = 4


class TopicsMode(enum.IntEnum):
    """The kind of topics to list in a namespace."""

    PERSISTENT = 0
    NON_PERSISTENT = 1
    ALL = 2
