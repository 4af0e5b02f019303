"""Vela's client library, with the names of Apache's Python client: `import vela as pulsar` replaces `import pulsar`.

Each name is imported when it is first used, so that the broker, which uses `vela.wire`, does not load the client.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from vela.version import __version__

if TYPE_CHECKING:
    from vela import aio, schema
    from vela import errors as exceptions
    from vela.aio.oauth2 import AuthenticationOauth2
    from vela.aio.pull.offsets import FileOffsets, MemoryOffsets
    from vela.authentication import (
        Authentication,
        AuthenticationBasic,
        AuthenticationTLS,
        AuthenticationToken,
    )
    from vela.blocking.client import Client
    from vela.blocking.consumer import Consumer
    from vela.blocking.producer import Producer
    from vela.blocking.pull import PullConsumer
    from vela.blocking.reader import Reader
    from vela.blocking.table_view import TableView
    from vela.core.acks.negative_acks import NegativeAckTimer
    from vela.core.consuming.pull_loop import PullLimits
    from vela.encryption.context import EncryptionContext, EncryptionKey
    from vela.encryption.key_reader import AbstractCryptoKeyReader, CryptoKeyReader, EncryptionKeyInfo
    from vela.errors import (
        AlreadyClosed,
        AuthenticationError,
        AuthorizationError,
        BrokerMetadataError,
        BrokerPersistenceError,
        ChecksumError,
        ConnectError,
        ConsumerAssignError,
        ConsumerBusy,
        ConsumerNotFound,
        ConsumerNotInitialized,
        CryptoError,
        CumulativeAcknowledgementNotAllowedError,
        ErrorGettingAuthenticationData,
        HandshakeError,
        IncompatibleSchema,
        Interrupted,
        InvalidConfiguration,
        InvalidMessage,
        InvalidMessageId,
        InvalidTopicName,
        InvalidTxnStatusError,
        InvalidUrl,
        LookupError,  # noqa: A004 - the name in Apache's client
        MemoryBufferIsFull,
        MessageTooBig,
        NotAllowedError,
        NotConnected,
        OperationNotSupported,
        ProducerBlockedQuotaExceededError,
        ProducerBlockedQuotaExceededException,
        ProducerBusy,
        ProducerFenced,
        ProducerNotInitialized,
        ProducerQueueIsFull,
        PulsarException,
        ReadError,
        Result,
        ServiceUnitNotReady,
        SubscriptionNotFound,
        Timeout,
        TooManyLookupRequestException,
        TopicNotFound,
        TopicTerminated,
        TransactionConflict,
        TransactionCoordinatorNotFoundError,
        TransactionNotFound,
        UnknownError,
        UnsupportedVersionError,
        VelaError,
    )
    from vela.loggers import ConsoleLogger, FileLogger, LoggerLevel
    from vela.message import Message, MessageId
    from vela.options import (
        BatchingType,
        CompressionType,
        ConsumerBatchReceivePolicy,
        ConsumerCryptoFailureAction,
        ConsumerDeadLetterPolicy,
        ConsumerKeySharedPolicy,
        ConsumerType,
        HashingScheme,
        InitialPosition,
        KeySharedMode,
        PartitionsRoutingMode,
        ProducerAccessMode,
        RegexSubscriptionMode,
    )
    from vela.pull_message import PulledMessage
    from vela.schema.primitive import BytesSchema
    from vela.wire.letters import DeadLetterRule
    from vela.wire.redelivery_backoff import RedeliveryBackoff

__all__ = [
    "AbstractCryptoKeyReader",
    "AlreadyClosed",
    "Authentication",
    "AuthenticationBasic",
    "AuthenticationError",
    "AuthenticationOauth2",
    "AuthenticationTLS",
    "AuthenticationToken",
    "AuthorizationError",
    "BatchingType",
    "BrokerMetadataError",
    "BrokerPersistenceError",
    "BytesSchema",
    "ChecksumError",
    "Client",
    "CompressionType",
    "ConnectError",
    "ConsoleLogger",
    "Consumer",
    "ConsumerAssignError",
    "ConsumerBatchReceivePolicy",
    "ConsumerBusy",
    "ConsumerCryptoFailureAction",
    "ConsumerDeadLetterPolicy",
    "ConsumerKeySharedPolicy",
    "ConsumerNotFound",
    "ConsumerNotInitialized",
    "ConsumerType",
    "CryptoError",
    "CryptoKeyReader",
    "CumulativeAcknowledgementNotAllowedError",
    "DeadLetterRule",
    "EncryptionContext",
    "EncryptionKey",
    "EncryptionKeyInfo",
    "ErrorGettingAuthenticationData",
    "FileLogger",
    "FileOffsets",
    "HandshakeError",
    "HashingScheme",
    "IncompatibleSchema",
    "InitialPosition",
    "Interrupted",
    "InvalidConfiguration",
    "InvalidMessage",
    "InvalidMessageId",
    "InvalidTopicName",
    "InvalidTxnStatusError",
    "InvalidUrl",
    "KeySharedMode",
    "LoggerLevel",
    "LookupError",
    "MemoryBufferIsFull",
    "MemoryOffsets",
    "Message",
    "MessageId",
    "MessageTooBig",
    "NegativeAckTimer",
    "NotAllowedError",
    "NotConnected",
    "OperationNotSupported",
    "PartitionsRoutingMode",
    "Producer",
    "ProducerAccessMode",
    "ProducerBlockedQuotaExceededError",
    "ProducerBlockedQuotaExceededException",
    "ProducerBusy",
    "ProducerFenced",
    "ProducerNotInitialized",
    "ProducerQueueIsFull",
    "PullConsumer",
    "PullLimits",
    "PulledMessage",
    "PulsarException",
    "ReadError",
    "Reader",
    "RedeliveryBackoff",
    "RegexSubscriptionMode",
    "Result",
    "ServiceUnitNotReady",
    "SubscriptionNotFound",
    "TableView",
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
    "__version__",
    "aio",
    "exceptions",
    "schema",
]

_MODULES: Final = {"aio": "vela.aio", "exceptions": "vela.errors", "schema": "vela.schema"}
_ELSEWHERE: Final = {
    "FileOffsets": "vela.aio.pull.offsets",
    "MemoryOffsets": "vela.aio.pull.offsets",
    "PullConsumer": "vela.blocking.pull",
    "PullLimits": "vela.core.consuming.pull_loop",
    "PulledMessage": "vela.pull_message",
    "Client": "vela.blocking.client",
    "ConsoleLogger": "vela.loggers",
    "FileLogger": "vela.loggers",
    "LoggerLevel": "vela.loggers",
    "Consumer": "vela.blocking.consumer",
    "Producer": "vela.blocking.producer",
    "Reader": "vela.blocking.reader",
    "TableView": "vela.blocking.table_view",
    "AbstractCryptoKeyReader": "vela.encryption.key_reader",
    "CryptoKeyReader": "vela.encryption.key_reader",
    "EncryptionKeyInfo": "vela.encryption.key_reader",
    "Authentication": "vela.authentication",
    "AuthenticationBasic": "vela.authentication",
    "AuthenticationOauth2": "vela.aio.oauth2",
    "AuthenticationTLS": "vela.authentication",
    "AuthenticationToken": "vela.authentication",
    "BytesSchema": "vela.schema.primitive",
    "DeadLetterRule": "vela.wire.letters",
    "EncryptionContext": "vela.encryption.context",
    "EncryptionKey": "vela.encryption.context",
    "Message": "vela.message",
    "MessageId": "vela.message",
    "NegativeAckTimer": "vela.core.acks.negative_acks",
    "RedeliveryBackoff": "vela.wire.redelivery_backoff",
}


if not TYPE_CHECKING:  # a type checker uses the imports above, and reports every other name

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'vela' has no attribute {name!r}")
        value: Any
        if name in _MODULES:
            value = importlib.import_module(_MODULES[name])
        elif name in _ELSEWHERE:
            value = getattr(importlib.import_module(_ELSEWHERE[name]), name)
        else:
            options, errors = (importlib.import_module(module) for module in ("vela.options", "vela.errors"))
            value = getattr(options if name in options.__all__ else errors, name)
        globals()[name] = value  # later uses find the name without this function
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
