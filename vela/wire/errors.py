"""Every exception that `vela.wire` raises on bad input.

The classes are named after the problem, because readers meet them in callers' `except` clauses.
"""

from __future__ import annotations

__all__ = [
    "BatchCorrupt",
    "ChecksumMismatch",
    "CodecUnavailable",
    "DecompressionFailed",
    "EntryCorrupt",
    "EntryEncrypted",
    "EntryIsChunk",
    "FrameTooLarge",
    "InvalidMessageId",
    "InvalidPull",
    "InvalidQuantity",
    "InvalidTopicName",
    "LocalProtocolError",
    "MalformedCommand",
    "MalformedFrame",
    "MetadataCorrupt",
    "RemoteProtocolError",
    "UncompressedSizeExceeded",
    "UnexpectedCommand",
    "WireError",
]


class WireError(Exception):
    """The base of every exception of this package."""


class InvalidMessageId(WireError, ValueError):
    """Bytes, base64 or text that is not a message id."""


class InvalidQuantity(WireError, ValueError):
    """Text that is neither a duration nor a size."""


class LocalProtocolError(WireError):
    """The caller asked its own engine for something the protocol does not allow now. The connection is unharmed."""


class RemoteProtocolError(WireError):
    """The peer broke the protocol. Nothing after this point can be trusted: close the connection.

    `events` has the valid events before the violation in the same chunk of bytes. Handle them first.
    """

    events: tuple[object, ...] = ()


class FrameTooLarge(RemoteProtocolError):
    """A frame announced more bytes than this side accepts. Raised before the bytes are buffered."""


class MalformedFrame(RemoteProtocolError):
    """The sizes in a frame contradict each other."""


class MalformedCommand(RemoteProtocolError):
    """The command is not protobuf, lacks a required field, or has a field with an impossible value."""


class UnexpectedCommand(RemoteProtocolError):
    """A well-formed command that this peer may not send, or may not send in this state."""


class EntryCorrupt(WireError):
    """The messages of one entry cannot be read. The connection and all other entries are unharmed."""


class ChecksumMismatch(EntryCorrupt):
    """CRC32C over metadata and payload differs from the one stored with them."""


class MetadataCorrupt(EntryCorrupt):
    """The entry's head or its MessageMetadata cannot be parsed."""


class DecompressionFailed(EntryCorrupt):
    """The codec rejected the payload, or produced a different size than the metadata declares."""


class CodecUnavailable(DecompressionFailed):
    """This side does not know the codec of the payload. The payload may be undamaged."""


class UncompressedSizeExceeded(EntryCorrupt):
    """The payload, decompressed, would be larger than the receiver's limit."""


class BatchCorrupt(EntryCorrupt):
    """The messages of a batch do not add up to its payload or its message count, or one of them has broken metadata."""


class EntryEncrypted(EntryCorrupt):
    """Not damaged: the payload is encrypted, and only a consumer with the key can read it."""


class EntryIsChunk(EntryCorrupt):
    """Not damaged: the entry is one piece of a message; the pieces must be joined first."""


class InvalidTopicName(WireError, ValueError):
    """Text that is not a valid topic or namespace name. The message says how to write one."""


class InvalidPull(WireError, ValueError):
    """A long-poll request that cannot be read. The message names the parameter and the values it takes."""
