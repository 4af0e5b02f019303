"""Encryption by the client. The query string has the keys, and each message has fields for decryption."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from broker.doors.handshake_errors import HandshakeRefused
from broker.doors.query import Query
from vela.wire.entry import Compression
from vela.wire.pb.vela_pulsar_pb2 import MessageMetadata

__all__ = ["EncryptionKey", "MessageEncryption", "encryption_keys", "message_encryption"]

_MOST_BYTES = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionKey:
    """An encrypted data key. `name` is the name of the public key that encrypts the data key."""

    name: str
    value: bytes
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEncryption:
    """The fields that consumers need to decrypt one message."""

    param: bytes
    compression: Compression = Compression.NONE  # How the client compressed the payload before encryption
    uncompressed_bytes: int = 0

    def noted(self, keys: Sequence[EncryptionKey], metadata: MessageMetadata, payload: bytes) -> bytes:
        """Write the keys and fields into the metadata, and return the payload unchanged."""
        for key in keys:
            stored = metadata.encryption_keys.add(key=key.name, value=key.value)
            for name, value in key.metadata.items():
                stored.metadata.add(key=name, value=value)
        metadata.encryption_param = self.param
        if self.compression is not Compression.NONE:
            metadata.compression = self.compression
            metadata.uncompressed_size = self.uncompressed_bytes
        return payload


class _GivenKey(msgspec.Struct):
    keyValue: bytes  # noqa: N815 - Pulsar's name
    metadata: dict[str, str] | None = None


def encryption_keys(query: Query) -> tuple[EncryptionKey, ...]:
    """Read `encryptionKeys`, a JSON object in base64.

    Raises HandshakeRefused with status 500 if the object is malformed or empty.
    """
    text = query.get("encryptionKeys")
    if not text:
        return ()
    try:
        given = msgspec.json.decode(base64.b64decode(text, validate=True), type=dict[str, _GivenKey])
    except (ValueError, RecursionError):  # msgspec raises RecursionError for deep nesting
        given = {}
    if not given:
        raise HandshakeRefused(
            500,
            "Failed to create producer: the broker has no keys to encrypt with: let the client encrypt, and send its"
            " keys in encryptionKeys, a JSON object in base64",
        )
    return tuple(
        EncryptionKey(name=name, value=each.keyValue, metadata=each.metadata or {})
        for name, each in given.items()
    )


def message_encryption(
    param: str | None, compression: str | None, uncompressed_bytes: int | None
) -> MessageEncryption:
    """Read the encryption fields of one message. Raises ValueError if a field is wrong."""
    if not param:
        raise ValueError("encryptionParam is missing; send the parameter of the cipher in base64")
    try:
        read = base64.b64decode(param, validate=True)
    except ValueError:
        raise ValueError("encryptionParam is not base64") from None
    names = [each.name for each in Compression]
    if compression is not None and compression not in names:
        raise ValueError(f"compressionType is one of {', '.join(names)}")
    codec = Compression[compression or "NONE"]
    if codec is Compression.NONE and not uncompressed_bytes:
        return MessageEncryption(param=read)
    if codec is Compression.NONE or uncompressed_bytes is None:
        raise ValueError("send compressionType and uncompressedMessageSize together, or neither")
    if not 0 <= uncompressed_bytes <= _MOST_BYTES:
        raise ValueError(f"uncompressedMessageSize is a number from 0 to {_MOST_BYTES}")
    return MessageEncryption(param=read, compression=codec, uncompressed_bytes=uncompressed_bytes)
