"""Decrypt payloads for a consumer."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from vela.encryption.encryptor import IV_BYTES
from vela.encryption.key_reader import AbstractCryptoKeyReader
from vela.errors import CryptoError, InvalidConfiguration
from vela.wire.pb.vela_pulsar_pb2 import EncryptionKeys, MessageMetadata

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["Decryptor"]

# Producers create a new data key every four hours. Decrypting a data key takes about a millisecond.
_DATA_KEYS_KEPT: Final = 1000
_AES_KEY_BYTES: Final = (16, 24, 32)


class Decryptor:
    """Decrypts the entries of one consumer. It remembers data keys, so that most entries need no RSA operation."""

    def __init__(self, key_reader: AbstractCryptoKeyReader) -> None:
        """Raises InvalidConfiguration without the extra `vela[encryption]`."""
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            from vela.encryption import rsa
        except ImportError:
            raise InvalidConfiguration("decryption needs cryptography: install vela[encryption]") from None
        self._cipher_of, self._invalid_tag, self._unwrap = AESGCM, InvalidTag, rsa.unwrap
        self._reader = key_reader
        self._ciphers: OrderedDict[bytes, AESGCM] = OrderedDict()  # by encrypted key, most recently used last

    def decrypt(self, metadata: MessageMetadata, payload: bytes) -> bytes:
        """Return the decrypted payload. The metadata stays unchanged.

        Tries each copy of the data key. If none works, raises CryptoError with the last copy's error.
        """
        vector = metadata.encryption_param
        if len(vector) != IV_BYTES:
            raise CryptoError(f"the initialisation vector has {len(vector)} bytes, not {IV_BYTES}")
        reason: CryptoError | None = None
        for key in metadata.encryption_keys:
            try:
                return self._cipher(key).decrypt(vector, payload, None)
            except CryptoError as error:
                reason = error
            except self._invalid_tag:
                reason = CryptoError(
                    "the payload was changed, or was encrypted with a key other than the one it names"
                )
            except Exception as error:  # the application's reader may still have the key of another copy
                reason = CryptoError(f"the key reader failed for {key.key!r}: {error!r}")
        raise reason or CryptoError("the message names no key")

    def _cipher(self, key: EncryptionKeys) -> AESGCM:
        found = self._ciphers.get(key.value)
        if found is not None:
            self._ciphers.move_to_end(key.value)
            return found
        metadata = {pair.key: pair.value for pair in key.metadata}
        private = self._reader.get_private_key(key.key, metadata)
        data_key = self._unwrap(key.value, private.key, key.key)
        if len(data_key) not in _AES_KEY_BYTES:
            raise CryptoError(
                f"the data key encrypted for {key.key!r} has {len(data_key)} bytes: not an AES key"
            )
        made = self._ciphers[key.value] = self._cipher_of(data_key)
        if len(self._ciphers) > _DATA_KEYS_KEPT:
            self._ciphers.popitem(last=False)
        return made
