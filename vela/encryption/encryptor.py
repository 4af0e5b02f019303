"""Encrypt payloads for a producer.

A random data key (AES-256, GCM) is encrypted for each recipient. Every entry carries these copies and its own
initialisation vector, so that a consumer can decrypt it without any other entry. Apache's clients do the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Final

from vela.encryption.key_reader import AbstractCryptoKeyReader
from vela.errors import InvalidConfiguration
from vela.wire.pb.vela_pulsar_pb2 import EncryptionKeys, KeyValue, MessageMetadata

__all__ = ["IV_BYTES", "Encryptor"]

IV_BYTES: Final = 12
_DATA_KEY_BYTES: Final = 32
_DATA_KEY_LIFE_S: Final = 4 * 3600.0
"""As in Apache's clients. With random vectors, a key is safe for 2^32 entries, or 298,000 a second for four hours."""


class Encryptor:
    """Encrypts the payloads of one producer."""

    def __init__(
        self,
        key_names: Sequence[str],
        key_reader: AbstractCryptoKeyReader,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`key_names`: one for each recipient. `clock` returns seconds and never goes back.

        Raises InvalidConfiguration without names or without the extra `vela[encryption]`, and CryptoError if a public
        key cannot be read.
        """
        if not key_names:
            raise InvalidConfiguration("a producer that encrypts needs the name of a key: encryption_key=…")
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            from vela.encryption import rsa
        except ImportError:
            raise InvalidConfiguration("encryption needs cryptography: install vela[encryption]") from None
        self._cipher_of, self._wrap = AESGCM, rsa.wrap
        self._key_names = tuple(key_names)
        self._reader = key_reader
        self._clock = clock
        self._renew()

    def _renew(self) -> None:
        """Create a new data key, encrypted with the recipients' current keys."""
        data_key = os.urandom(_DATA_KEY_BYTES)
        wrapped = []
        for name in self._key_names:
            found = self._reader.get_public_key(name, {})
            wrapped.append(
                EncryptionKeys(
                    key=name,
                    value=self._wrap(data_key, found.key, name),
                    metadata=[KeyValue(key=key, value=value) for key, value in found.metadata.items()],
                )
            )
        self._cipher = self._cipher_of(data_key)
        self._wrapped = wrapped
        self._renew_at_s = self._clock() + _DATA_KEY_LIFE_S

    def encrypt(self, metadata: MessageMetadata, payload: bytes) -> bytes:
        """Return the encrypted payload, 16 bytes longer, and write keys and vector into the metadata.

        Raises CryptoError if the data key must be renewed and a public key cannot be read.
        """
        if self._clock() >= self._renew_at_s:
            self._renew()
        vector = os.urandom(IV_BYTES)
        del metadata.encryption_keys[:]
        metadata.encryption_keys.extend(self._wrapped)
        metadata.encryption_param = vector
        return self._cipher.encrypt(vector, payload, None)
