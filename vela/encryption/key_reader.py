"""Where the recipients' keys come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vela.errors import CryptoError, InvalidConfiguration

__all__ = ["AbstractCryptoKeyReader", "CryptoKeyReader", "EncryptionKeyInfo"]


@dataclass(frozen=True, slots=True)
class EncryptionKeyInfo:
    """A key, and what its reader wants to have sent along with messages."""

    key: bytes  # PEM of an RSA key
    metadata: Mapping[str, str] = field(default_factory=dict)


class AbstractCryptoKeyReader(ABC):
    """Finds keys by name: subclass it for keys that are not files.

    Called when a producer is made and every four hours, and by consumers for each data key that they have not met: not
    once a message. It runs on the client's event loop, so it must not wait for the network; keep such keys at hand.
    """

    @abstractmethod
    def get_public_key(self, key_name: str, metadata: Mapping[str, str]) -> EncryptionKeyInfo:
        """The key to encrypt for `key_name` with. Raises CryptoError when there is none."""

    @abstractmethod
    def get_private_key(self, key_name: str, metadata: Mapping[str, str]) -> EncryptionKeyInfo:
        """The key to decrypt with; `metadata` is what the public key's reader gave. Raises CryptoError."""


class CryptoKeyReader(AbstractCryptoKeyReader):
    """One pair of keys in two PEM files, used for every key name, as in Apache's Python client."""

    def __init__(self, public_key_path: str, private_key_path: str) -> None:
        """A producer reads only the first, a consumer only the second; the other may be "".

        Raises InvalidConfiguration for arguments that are no paths.
        """
        if not isinstance(public_key_path, str) or not isinstance(private_key_path, str):
            raise InvalidConfiguration("CryptoKeyReader takes two paths, of a public and a private key")
        self._public_key_path = public_key_path
        self._private_key_path = private_key_path

    def get_public_key(self, key_name: str, metadata: Mapping[str, str]) -> EncryptionKeyInfo:
        """The public file. Raises CryptoError when it cannot be read."""
        return _from_file(self._public_key_path, key_name, "public")

    def get_private_key(self, key_name: str, metadata: Mapping[str, str]) -> EncryptionKeyInfo:
        """The private file. Raises CryptoError when it cannot be read."""
        return _from_file(self._private_key_path, key_name, "private")


def _from_file(path: str, key_name: str, kind: str) -> EncryptionKeyInfo:
    try:
        return EncryptionKeyInfo(Path(path).read_bytes())
    except OSError as error:
        raise CryptoError(
            f"the {kind} key for {key_name!r} cannot be read from {path!r}: {error.strerror}"
        ) from None
