"""How a received message was encrypted. Applications need this to decrypt messages themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from vela.options import CompressionType
from vela.wire.pb.vela_pulsar_pb2 import MessageMetadata

__all__ = ["EncryptionContext", "EncryptionKey", "context_of"]

_CODECS: Final = frozenset(int(codec) for codec in CompressionType)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionKey:
    """The data key, encrypted for one recipient."""

    key: str  # the recipient key's name
    value: bytes  # the data key, encrypted with the recipient's public key
    metadata: dict[str, str]  # the metadata that the producer's key reader returned


class EncryptionContext:
    """How a payload is encrypted. The methods are those of Apache's Python client."""

    __slots__ = (
        "_algorithm",
        "_batch_size",
        "_compression",
        "_failed",
        "_keys",
        "_param",
        "_uncompressed_bytes",
    )

    def __init__(
        self,
        *,
        keys: tuple[EncryptionKey, ...],
        param: bytes,
        algorithm: str,
        compression: CompressionType,
        uncompressed_bytes: int,
        batch_size: int,
        failed: bool,
    ) -> None:
        self._keys = keys
        self._param = param
        self._algorithm = algorithm
        self._compression = compression
        self._uncompressed_bytes = uncompressed_bytes
        self._batch_size = batch_size
        self._failed = failed

    def keys(self) -> list[EncryptionKey]:
        """Return the data key, encrypted for each recipient."""
        return list(self._keys)

    def param(self) -> bytes:
        """Return the initialisation vector."""
        return self._param

    def algorithm(self) -> str:
        """Return the cipher's name as the producer gave it; often empty."""
        return self._algorithm

    def compression_type(self) -> CompressionType:
        """Return how the payload was compressed before it was encrypted."""
        return self._compression

    def uncompressed_message_size(self) -> int:
        """Return the size of the payload before compression in bytes; 0 if the producer did not give it."""
        return self._uncompressed_bytes

    def batch_size(self) -> int:
        """Return the number of messages in the batch; -1 if it is not a batch."""
        return self._batch_size

    def is_decryption_failed(self) -> bool:
        """Return whether the message's payload is still encrypted, because this client could not decrypt it."""
        return self._failed

    def __repr__(self) -> str:
        names = ", ".join(key.key for key in self._keys)
        return (
            f"<EncryptionContext keys=[{names}] compression={self._compression.name} failed={self._failed}>"
        )


def context_of(metadata: MessageMetadata, *, failed: bool) -> EncryptionContext | None:
    """Return the context from an entry's metadata, or None if its payload was not encrypted."""
    if not metadata.encryption_keys:
        return None
    return EncryptionContext(
        keys=tuple(
            EncryptionKey(
                key=key.key, value=key.value, metadata={pair.key: pair.value for pair in key.metadata}
            )
            for key in metadata.encryption_keys
        ),
        param=metadata.encryption_param,
        algorithm=metadata.encryption_algo,
        compression=CompressionType(metadata.compression if metadata.compression in _CODECS else 0),
        uncompressed_bytes=metadata.uncompressed_size,
        batch_size=metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else -1,
        failed=failed,
    )
