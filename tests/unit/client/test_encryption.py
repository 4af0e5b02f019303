"""vela.encryption decrypts entries of Apache's client and its own, and refuses changed bytes and wrong keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests.unit.client.recorded_encryption import BATCH, PRIVATE_KEY, SINGLE
from vela.encryption import (
    AbstractCryptoKeyReader,
    CryptoKeyReader,
    Decryptor,
    EncryptionKeyInfo,
    Encryptor,
    context_of,
)
from vela.errors import CryptoError, InvalidConfiguration
from vela.options import CompressionType
from vela.wire.compression import decompress
from vela.wire.entry.header import parse_metadata
from vela.wire.entry.sealing import TAG_BYTES
from vela.wire.pb.vela_pulsar_pb2 import MessageMetadata


class Keys(AbstractCryptoKeyReader):
    """Reads keys from memory by name, and records the names that it was asked for."""

    def __init__(self, **keys: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> None:
        self.keys = keys
        self.asked: list[str] = []

    def get_public_key(self, key_name: str, metadata: Mapping[str, str]) -> EncryptionKeyInfo:
        if key_name not in self.keys:
            raise CryptoError(f"no key {key_name}")
        public = self.keys[key_name].public_key()
        pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return EncryptionKeyInfo(pem, {"version": "3"})

    def get_private_key(self, key_name: str, metadata: Mapping[str, str]) -> EncryptionKeyInfo:
        if key_name not in self.keys:
            raise CryptoError(f"no key {key_name}")
        self.asked.append(f"{key_name} {dict(metadata)}")
        return EncryptionKeyInfo(pem_of(self.keys[key_name]))


def pem_of(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


ALICE, BOB, EVE = (rsa.generate_private_key(65537, 2048) for _ in range(3))


def encrypted(encryptor: Encryptor, payload: bytes = b"payload") -> tuple[MessageMetadata, bytes]:
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=2)
    return metadata, encryptor.encrypt(metadata, payload)


def test_encryption_makes_a_payload_longer_by_its_tag() -> None:
    for payload in (b"", bytes(1000)):
        assert len(encrypted(Encryptor(["alice"], Keys(alice=ALICE)), payload)[1]) == len(payload) + TAG_BYTES


@pytest.fixture
def recorded_reader(tmp_path: Path) -> CryptoKeyReader:
    """A reader of the private key with which the recorded messages can be read."""
    path = tmp_path / "private.pem"
    path.write_bytes(PRIVATE_KEY)
    return CryptoKeyReader("", str(path))


@pytest.mark.row("S0.16")
def test_messages_encrypted_by_apaches_client_are_read(recorded_reader: CryptoKeyReader) -> None:
    decryptor = Decryptor(recorded_reader)
    metadata, offset = parse_metadata(SINGLE)
    assert decryptor.decrypt(metadata, SINGLE[offset:]) == b"hello-0"
    metadata, offset = parse_metadata(BATCH)
    payload = decryptor.decrypt(metadata, BATCH[offset:])
    framed = decompress(metadata.compression, payload, uncompressed_bytes=metadata.uncompressed_size)
    assert [framed.count(b"hello-%d" % number) for number in range(3)] == [1, 1, 1]


def test_the_keys_of_a_recorded_message_are_read() -> None:
    metadata, _ = parse_metadata(BATCH)
    context = context_of(metadata, failed=True)
    assert context is not None
    (key,) = context.keys()
    assert (key.key, len(key.value), key.metadata) == ("my-key", 256, {})
    assert (context.param(), context.algorithm()) == (metadata.encryption_param, "")
    assert (context.compression_type(), context.uncompressed_message_size()) == (CompressionType.ZSTD, 69)
    assert (context.batch_size(), context.is_decryption_failed()) == (3, True)
    single = context_of(parse_metadata(SINGLE)[0], failed=False)
    assert single is not None
    assert (single.batch_size(), single.is_decryption_failed()) == (-1, False)
    assert context_of(MessageMetadata(), failed=False) is None


def test_each_recipient_reads_with_its_own_key_and_others_do_not() -> None:
    metadata, payload = encrypted(Encryptor(["alice", "bob"], Keys(alice=ALICE, bob=BOB)))
    assert payload != b"payload"
    for name, key in (("alice", ALICE), ("bob", BOB)):
        assert Decryptor(Keys(**{name: key})).decrypt(metadata, payload) == b"payload"
    with pytest.raises(CryptoError, match="does not belong to the public key"):
        Decryptor(Keys(alice=EVE, bob=EVE)).decrypt(metadata, payload)
    with pytest.raises(CryptoError, match="no key bob"):
        Decryptor(Keys(eve=EVE)).decrypt(metadata, payload)


def test_a_reader_that_fails_with_another_error_still_reads_its_own_copy() -> None:
    class Rude(Keys):
        def get_private_key(self, key_name: str, metadata: Mapping[str, str]) -> EncryptionKeyInfo:
            return EncryptionKeyInfo(pem_of(self.keys[key_name]))  # raises KeyError for other names

    metadata, payload = encrypted(Encryptor(["alice", "bob"], Keys(alice=ALICE, bob=BOB)))
    assert Decryptor(Rude(bob=BOB)).decrypt(metadata, payload) == b"payload"
    with pytest.raises(CryptoError, match="KeyError"):
        Decryptor(Rude(eve=EVE)).decrypt(metadata, payload)


def test_every_entry_has_its_own_vector_and_the_recipients_key_is_used_once() -> None:
    encryptor, keys = Encryptor(["alice"], Keys(alice=ALICE)), Keys(alice=ALICE)
    decryptor = Decryptor(keys)
    entries = [encrypted(encryptor) for _ in range(5)]
    assert len({metadata.encryption_param for metadata, _ in entries}) == 5
    assert len({payload for _, payload in entries}) == 5
    assert all(decryptor.decrypt(metadata, payload) == b"payload" for metadata, payload in entries)
    assert keys.asked == ["alice {'version': '3'}"]


def test_a_data_key_is_renewed_after_four_hours() -> None:
    now_s = 100.0
    encryptor = Encryptor(["alice"], Keys(alice=ALICE), clock=lambda: now_s)
    before = encrypted(encryptor)[0].encryption_keys[0].value
    now_s += 4 * 3600 - 1
    assert encrypted(encryptor)[0].encryption_keys[0].value == before
    now_s += 1
    metadata, payload = encrypted(encryptor)
    assert metadata.encryption_keys[0].value != before
    assert Decryptor(Keys(alice=ALICE)).decrypt(metadata, payload) == b"payload"


def test_an_entry_that_is_sent_again_is_encrypted_again() -> None:
    encryptor = Encryptor(["alice"], Keys(alice=ALICE))
    metadata, _ = encrypted(encryptor)
    payload = encryptor.encrypt(metadata, b"other")
    assert len(metadata.encryption_keys) == 1
    assert Decryptor(Keys(alice=ALICE)).decrypt(metadata, payload) == b"other"


@pytest.mark.parametrize("where", ["payload", "vector", "short vector", "key"])
def test_changed_bytes_are_refused(where: str) -> None:
    metadata, payload = encrypted(Encryptor(["alice"], Keys(alice=ALICE)))
    if where == "payload":
        payload = payload[:-1] + bytes([payload[-1] ^ 1])
    elif where == "vector":
        metadata.encryption_param = bytes(12)
    elif where == "short vector":
        metadata.encryption_param = b"short"
    else:
        metadata.encryption_keys[0].value = bytes(256)
    with pytest.raises(CryptoError):
        Decryptor(Keys(alice=ALICE)).decrypt(metadata, payload)


def small_key(folder: Path) -> Path:
    """Write a public key of 512 bits, which the library reads but no longer makes."""
    path = folder / "small.pem"
    path.write_text(
        "-----BEGIN PUBLIC KEY-----\n"
        "MFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBANM19BfnQz+fSXWAfsiV2ikU/F+p7Tj7\n"
        "UogDpnohu2tLn5emUnunB94PVyU9YK9/rLS613adTNqs0tuFN2d0xBMCAwEAAQ==\n"
        "-----END PUBLIC KEY-----\n"
    )
    return path


def test_invalid_keys_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match="encryption_key"):
        Encryptor([], Keys())
    with pytest.raises(CryptoError, match="no key carol"):
        Encryptor(["carol"], Keys())
    with pytest.raises(CryptoError, match=r"'k' cannot be read from '.*missing\.pem'"):
        Encryptor(["k"], CryptoKeyReader(str(tmp_path / "missing.pem"), ""))
    with pytest.raises(CryptoError, match="not an RSA key"):
        Encryptor(["k"], Keys(k=ec.generate_private_key(ec.SECP256R1())))
    with pytest.raises(CryptoError, match="'k' has 512 bits, which are too few"):
        Encryptor(["k"], CryptoKeyReader(str(small_key(tmp_path)), ""))
    (tmp_path / "text.pem").write_text("not a key")
    with pytest.raises(CryptoError, match="not a public key in PEM format"):
        Encryptor(["k"], CryptoKeyReader(str(tmp_path / "text.pem"), ""))
    metadata, payload = encrypted(Encryptor(["k"], Keys(k=ALICE)))
    with pytest.raises(CryptoError, match="not an unencrypted private key in PEM format"):
        Decryptor(CryptoKeyReader("", str(tmp_path / "text.pem"))).decrypt(metadata, payload)
    with pytest.raises(CryptoError, match="not an RSA key"):
        Decryptor(Keys(k=ec.generate_private_key(ec.SECP256R1()))).decrypt(metadata, payload)
    with pytest.raises(InvalidConfiguration, match="two paths"):
        CryptoKeyReader(b"", "")  # type: ignore[arg-type]
