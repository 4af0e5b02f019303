"""Read the keys of recipients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vela.errors import CryptoError, InvalidConfiguration

__all__ = ["AbstractCryptoKeyReader", "CryptoKeyReader", "EncryptionKeyInfo"]


@dataclass(frozen=True, slots=True)
class EncryptionKeyInfo:
    """A key, and metadata that its reader wants to send with messages."""

    key: bytes  # an RSA key in PEM format
    metadata: Mapping[str, str] = field(default_factory=dict)


class AbstractCryptoKeyReader(ABC):
    """Finds keys by name. Subclass it for keys that are not in files.

    A producer calls the reader when it is created, and again before the first entry that it sends four hours or more
    after the last call. A consumer calls it for each data key that it does not know yet. The reader runs on the
    client's event loop, so it must not wait for the network: load remote keys beforehand.
    """

    @abstractmethod
    def get_public_key(self, key_name: str, metadata: Mapping[str, str]) -> EncryptionKeyInfo:
        """Return the key with which to encrypt for `key_name`. Raises CryptoError if there is none."""

    @abstractmethod
    def get_private_key(self, key_name: str, metadata: Mapping[str, str]) -> EncryptionKeyInfo:
        """Return the key to decrypt with. `metadata` came with the public key. Raises CryptoError if there is none."""


class CryptoKeyReader(AbstractCryptoKeyReader):
    """Reads a pair of keys from two PEM files, for any key name, as in Apache's Python client."""

    def __init__(self, public_key_path: str, private_key_path: str) -> None:
        """A producer reads only the public key, a consumer only the private one. The other path may be "".

        Raises InvalidConfiguration if an argument is not a path.
        """
        if not isinstance(public_key_path, str) or not isinstance(private_key_path, str):
            raise InvalidConfiguration("CryptoKeyReader takes two paths, of a public and a private key")
        self._public_key_path = public_key_path
        self._private_key_path = private_key_path

    def get_public_key(self, key_name: str, metadata: Mapping[str, str]) -> EncryptionKeyInfo:
        """Return the public key. Raises CryptoError if the file cannot be read."""
        return _from_file(self._public_key_path, key_name, "public")

    def get_private_key(self, key_name: str, metadata: Mapping[str, str]) -> EncryptionKeyInfo:
        """Return the private key. Raises CryptoError if the file cannot be read."""
        return _from_file(self._private_key_path, key_name, "private")


def _from_file(path: str, key_name: str, kind: str) -> EncryptionKeyInfo:
    try:
        return EncryptionKeyInfo(Path(path).read_bytes())
    except OSError as error:
        raise CryptoError(
            f"the {kind} key for {key_name!r} cannot be read from {path!r}: {error.strerror}"
        ) from None
