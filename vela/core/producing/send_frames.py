"""Encode messages and batches as SEND frames of one producer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from vela.core.producing.batching import Batch
from vela.core.producing.chunks import ChunkedSend, split
from vela.core.producing.outgoing import Outgoing
from vela.core.producing.pending_sends import NEVER_MS, PendingSend
from vela.errors import CryptoError, VelaError
from vela.wire.binary import commands
from vela.wire.compression import Compression
from vela.wire.entry import FRAME_PADDING_BYTES
from vela.wire.entry.header import MAX_JOINED_BYTES
from vela.wire.entry.sealing import TAG_BYTES, Encrypt, MessageMetadata, compress_payload, seal

__all__ = ["PayloadTooLarge", "ProducerIdentity", "SendFrames"]

T = TypeVar("T")

_COMMAND_ROOM_BYTES: Final = 512
"""Room for the command in a frame. SEND needs less, but the MESSAGE to a consumer may need this much."""


class PayloadTooLarge(ValueError):
    """The payload exceeds the broker's limit, or the payload, properties and keys exceed the limit for a frame.

    Also raised for a compressed message in chunks that consumers would not decompress.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """The broker's answer about a producer. Its name and schema version go into every entry."""

    name: str
    schema_version: bytes = b""
    max_message_bytes: int


class SendFrames(Generic[T]):
    """Encodes messages. The caller chooses the sequence ids.

    `publish_time_ms` is the wall-clock time, which goes into the entry. `now_ms`, at which the send timeout starts, may
    come from any clock that never goes back.
    """

    __slots__ = ("_chunking", "_compression", "_encrypt", "_producer_id", "_send_timeout_ms", "identity")

    def __init__(
        self,
        *,
        producer_id: int,
        identity: ProducerIdentity,
        compression: Compression = Compression.NONE,
        encrypt: Encrypt | None = None,
        chunking: bool = False,
        send_timeout_ms: int = 30_000,
    ) -> None:
        self._producer_id = producer_id
        self._compression = compression
        self._encrypt = None if encrypt is None else _with_crypto_errors(encrypt)
        self._chunking = chunking
        self._send_timeout_ms = send_timeout_ms  # 0 = wait for ever
        self.identity = identity  # replaced after a reconnect

    def batch(self, batch: Batch[T], *, publish_time_ms: int, now_ms: int) -> PendingSend[T]:
        """Encode a batch as one entry. Raises PayloadTooLarge, and CryptoError for every fault of the encryption."""
        metadata = self._metadata(batch.sequence_id, publish_time_ms)
        count = len(batch.tokens)
        metadata.num_messages_in_batch = count
        last = batch.last_sequence_id
        if last != batch.sequence_id:
            metadata.highest_sequence_id = last
        if batch.named_by is not None:
            _write_keys(metadata, batch.named_by)
        payload = compress_payload(metadata, bytes(batch.payload), self._compression)
        self._check(len(payload), f"a batch of {count} messages")
        return self._send(
            metadata,
            payload,
            batch.tokens,
            last_sequence_id=last,
            is_batch=True,
            payload_bytes=batch.payload_bytes,
            now_ms=now_ms,
        )

    def single(
        self, message: Outgoing, sequence_id: int, token: T, *, publish_time_ms: int, now_ms: int
    ) -> list[PendingSend[T]]:
        """Encode a message as one entry or, with chunking, as several.

        Raises the errors of `batch`, and ChunkingImpossible.
        """
        metadata = self._message_metadata(message, sequence_id, publish_time_ms)
        payload = compress_payload(metadata, message.payload, self._compression)
        size_bytes = len(payload) + self._tag_bytes
        if size_bytes > self.identity.max_message_bytes or (
            self._chunking and size_bytes + metadata.ByteSize() > self._entry_limit
        ):
            if not self._chunking:
                self._check(len(payload), "a message")
            return self._chunks(metadata, payload, message, token, now_ms)
        return [
            self._send(
                metadata,
                payload,
                [token],
                last_sequence_id=sequence_id,
                payload_bytes=len(message.payload),
                now_ms=now_ms,
            )
        ]

    def _chunks(
        self, metadata: MessageMetadata, payload: bytes, message: Outgoing, token: T, now_ms: int
    ) -> list[PendingSend[T]]:
        if self._compression and len(message.payload) > MAX_JOINED_BYTES:
            raise PayloadTooLarge(  # consumers would discard it, and the producer would never know
                f"a message of {len(message.payload)} bytes before compression is above the {MAX_JOINED_BYTES} that "
                "consumers decompress: make it smaller, or send it without compression"
            )
        sequence_id, total = metadata.sequence_id, len(payload)
        metadata.uuid = f"{self.identity.name}-{sequence_id}"
        metadata.total_chunk_msg_size = total
        # Placeholders, to measure the metadata: no real number of chunks takes more bytes.
        metadata.chunk_id = metadata.num_chunks_from_msg = total
        pieces = split(
            payload,
            metadata_bytes=metadata.ByteSize(),
            max_message_bytes=self.identity.max_message_bytes,
            encrypted=self._encrypt is not None,
        )
        metadata.num_chunks_from_msg = len(pieces)
        chunked = ChunkedSend(metadata.uuid, len(pieces))
        sends: list[PendingSend[T]] = []
        for chunk_id, piece in enumerate(pieces):
            own = MessageMetadata()  # one for each chunk: encryption writes into it
            own.CopyFrom(metadata)
            own.chunk_id = chunk_id
            is_last = chunk_id == len(pieces) - 1
            sends.append(
                self._send(
                    own,
                    piece,
                    [token] if is_last else [],
                    last_sequence_id=sequence_id,
                    payload_bytes=len(message.payload) if is_last else 0,
                    now_ms=now_ms,
                    chunked=chunked,
                )
            )
        return sends

    def _metadata(self, sequence_id: int, publish_time_ms: int) -> MessageMetadata:
        identity = self.identity
        metadata = MessageMetadata(
            producer_name=identity.name, sequence_id=sequence_id, publish_time=publish_time_ms
        )
        if identity.schema_version:
            metadata.schema_version = identity.schema_version
        return metadata

    def _message_metadata(self, message: Outgoing, sequence_id: int, publish_time_ms: int) -> MessageMetadata:
        metadata = self._metadata(sequence_id, publish_time_ms)
        for name, value in message.properties.items():
            metadata.properties.add(key=name, value=value)
        _write_keys(metadata, message)
        if message.event_time_ms:
            metadata.event_time = message.event_time_ms
        if message.deliver_at_ms is not None:
            metadata.deliver_at_time = message.deliver_at_ms
        if message.replicate_to:
            metadata.replicate_to.extend(message.replicate_to)
        if message.null_value:
            metadata.null_value = True
        return metadata

    @property
    def _entry_limit(self) -> int:
        """Return how many bytes an entry may have in a frame besides its command."""
        return self.identity.max_message_bytes + FRAME_PADDING_BYTES - _COMMAND_ROOM_BYTES

    @property
    def _tag_bytes(self) -> int:
        """Return how many bytes encryption adds to a payload. The broker's limit includes them."""
        return 0 if self._encrypt is None else TAG_BYTES

    def _check(self, payload_bytes: int, what: str) -> None:
        limit, size_bytes = self.identity.max_message_bytes, payload_bytes + self._tag_bytes
        if size_bytes > limit:
            encrypted = "" if self._encrypt is None else ", encrypted,"
            raise PayloadTooLarge(
                f"{what} of {size_bytes} bytes{encrypted} is above the broker's limit of {limit}: "
                "make it smaller, or create the producer with chunking_enabled=True"
            )

    def _send(
        self,
        metadata: MessageMetadata,
        payload: bytes,
        tokens: list[T],
        *,
        last_sequence_id: int,
        payload_bytes: int,
        now_ms: int,
        is_batch: bool = False,
        chunked: ChunkedSend | None = None,
    ) -> PendingSend[T]:
        entry = seal(metadata, payload, self._encrypt)
        if len(entry) > self._entry_limit:
            raise PayloadTooLarge(
                f"an entry of {len(entry)} bytes, {len(payload)} of them payload, is above the {self._entry_limit} "
                "that a frame to the broker takes: make properties and keys smaller"
            )
        sequence_id = metadata.sequence_id
        frame = commands.send(
            self._producer_id,
            sequence_id,
            entry,
            messages=len(tokens) if is_batch else None,
            highest_sequence_id=last_sequence_id if last_sequence_id != sequence_id else None,
            is_chunk=chunked is not None,
        )
        timeout_ms = self._send_timeout_ms
        return PendingSend(
            frame,
            tokens,
            sequence_id=sequence_id,
            last_sequence_id=last_sequence_id,
            is_batch=is_batch,
            payload_bytes=payload_bytes,
            sent_ms=now_ms,
            deadline_ms=now_ms + timeout_ms if timeout_ms else NEVER_MS,
            chunked=chunked,
        )


def _with_crypto_errors(encrypt: Encrypt) -> Encrypt:
    """Return `encrypt` with every fault turned into a CryptoError, except the client's own errors."""

    def guarded(metadata: MessageMetadata, payload: bytes) -> bytes:
        try:
            return encrypt(metadata, payload)
        except VelaError:
            raise
        except Exception as error:
            raise CryptoError(f"the message could not be encrypted: {error!r}") from error

    return guarded


def _write_keys(metadata: MessageMetadata, message: Outgoing) -> None:
    if message.key is not None:
        metadata.partition_key = message.key
        if message.key_b64:
            metadata.partition_key_b64_encoded = True
    if message.ordering_key is not None:
        metadata.ordering_key = message.ordering_key
