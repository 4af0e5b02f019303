"""End-to-end encryption: producers encrypt, consumers with the key decrypt, and the broker never sees the payloads.

Encrypting and decrypting need the extra `vela[encryption]`. Reading which keys a message was encrypted with does not.
"""

from __future__ import annotations

from vela.encryption.context import EncryptionContext, EncryptionKey, context_of
from vela.encryption.decryptor import Decryptor
from vela.encryption.encryptor import Encryptor
from vela.encryption.key_reader import AbstractCryptoKeyReader, CryptoKeyReader, EncryptionKeyInfo

__all__ = [
    "AbstractCryptoKeyReader",
    "CryptoKeyReader",
    "Decryptor",
    "EncryptionContext",
    "EncryptionKey",
    "EncryptionKeyInfo",
    "Encryptor",
    "context_of",
]
