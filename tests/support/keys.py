"""Pairs of RSA keys for end-to-end encryption."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

__all__ = ["write_key_pair"]


def write_key_pair(folder: Path) -> tuple[str, str]:
    """Write a new pair as PEM files, and return the paths of the public and the private key."""
    key = rsa.generate_private_key(65537, 2048)
    private, public = folder / "private-key.pem", folder / "public-key.pem"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return str(public), str(private)
