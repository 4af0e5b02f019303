"""Encrypt data keys for recipients with RSA, OAEP and SHA-1, as Apache's clients do."""

from __future__ import annotations

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from vela.errors import CryptoError

__all__ = ["unwrap", "wrap"]

# OAEP does not need a hash that resists collisions, and other clients use only this one.
_PADDING = OAEP(mgf=MGF1(algorithm=SHA1()), algorithm=SHA1(), label=None)  # noqa: S303 - see above


def wrap(data_key: bytes, public_pem: bytes, key_name: str) -> bytes:
    """Return the data key, encrypted for the owner of the public key. Raises CryptoError."""
    try:
        key = load_pem_public_key(public_pem)
    except (ValueError, UnsupportedAlgorithm):
        raise CryptoError(f"the public key for {key_name!r} is not a public key in PEM format") from None
    if not isinstance(key, RSAPublicKey):
        raise CryptoError(f"the public key for {key_name!r} is not an RSA key")
    try:
        return key.encrypt(data_key, _PADDING)
    except ValueError:
        raise CryptoError(
            f"the public key for {key_name!r} has {key.key_size} bits, which are too few for the data key"
        ) from None


def unwrap(wrapped: bytes, private_pem: bytes, key_name: str) -> bytes:
    """Return the decrypted data key. Raises CryptoError if the private key is invalid or not the recipient's."""
    try:
        key = load_pem_private_key(private_pem, password=None)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        raise CryptoError(
            f"the private key for {key_name!r} is not an unencrypted private key in PEM format"
        ) from None
    if not isinstance(key, RSAPrivateKey):
        raise CryptoError(f"the private key for {key_name!r} is not an RSA key")
    try:
        return key.decrypt(wrapped, _PADDING)
    except ValueError:
        raise CryptoError(
            f"the private key for {key_name!r} does not belong to the public key that encrypted the data key"
        ) from None
