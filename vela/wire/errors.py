"""Everything `vela.wire` raises. No other exception leaves this package on bad input.

The classes are named after what is wrong, as callers read them in `except` clauses.
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
    """Root of the tree."""


class InvalidMessageId(WireError, ValueError):
    """Bytes, base64 or text that is not a message id."""


class LocalProtocolError(WireError):
    """This side asked its own engine for what the protocol does not allow now. The connection is unharmed."""


class RemoteProtocolError(WireError):
    """The peer broke the protocol. Nothing after this point can be trusted: close the connection.

    `events` holds what the same chunk of bytes had carried before the violation: valid, to be handled first.
    """

    events: tuple[object, ...] = ()


class FrameTooLarge(RemoteProtocolError):
    """A frame announced more bytes than this side takes. Raised before the bytes are buffered."""


class MalformedFrame(RemoteProtocolError):
    """The sizes in a frame contradict each other."""


class MalformedCommand(RemoteProtocolError):
    """The command is not protobuf, lacks a required field, or a field holds an impossible value."""


class UnexpectedCommand(RemoteProtocolError):
    """A well-formed command that this peer may not send, or not in this state."""


class EntryCorrupt(WireError):
    """The messages of one entry cannot be had. The connection and all other entries are unharmed."""


class ChecksumMismatch(EntryCorrupt):
    """CRC32C over metadata and payload differs from the one stored with them."""


class MetadataCorrupt(EntryCorrupt):
    """The entry's head or its MessageMetadata cannot be parsed."""


class DecompressionFailed(EntryCorrupt):
    """The codec rejected the payload, or it gave another size than the metadata declares."""


class CodecUnavailable(DecompressionFailed):
    """The payload is sound as far as known, but its codec is unknown here."""


class UncompressedSizeExceeded(EntryCorrupt):
    """The payload, decompressed, would be larger than the receiver's limit."""


class BatchCorrupt(EntryCorrupt):
    """The groups inside a batch do not add up to its payload or its message count."""


class EntryEncrypted(EntryCorrupt):
    """Not damaged: the payload is encrypted for somebody else."""


class EntryIsChunk(EntryCorrupt):
    """Not damaged: the entry is one piece of a message; the pieces must be joined first."""


class InvalidTopicName(WireError, ValueError):
    """Text that is no topic's name, or no namespace's; it says how to write one."""


class InvalidPull(WireError, ValueError):
    """A long-poll request that cannot be read; the text names the parameter and what it takes."""
