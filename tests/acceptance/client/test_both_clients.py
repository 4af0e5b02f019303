"""The same examples, run with `import pulsar` and with `import vela`, give the same results."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pulsar
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

import vela
from tests.acceptance.client.both import consuming, positions, publishing, refusals, schemas
from tests.acceptance.client.both.place import EXAMPLES, Place
from tests.support.vela import VelaProcess

_MODULES_OF_EXAMPLES = (consuming, positions, publishing, refusals, schemas)
BOTH = [pytest.param(pulsar, id="pulsar"), pytest.param(vela, id="vela")]
ACROSS = [pytest.param(pulsar, vela, id="pulsar-vela"), pytest.param(vela, pulsar, id="vela-pulsar")]


@pytest.fixture(scope="session")
def key_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A public and a private key."""
    folder: Path = tmp_path_factory.mktemp("keys")
    key = rsa.generate_private_key(65537, 2048)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (folder / "public.pem").write_bytes(public)
    (folder / "private.pem").write_bytes(private)
    return str(folder / "public.pem"), str(folder / "private.pem")


@pytest.fixture
def place(shared_vela: VelaProcess, key_files: tuple[str, str]) -> Place:
    """Apache's client speaks TCP; ours here too, over WebSocket in its own tests."""
    url = shared_vela.pulsar_url
    return Place(
        vela=shared_vela,
        public_key=key_files[0],
        private_key=key_files[1],
        urls={"pulsar": url, "vela": url},
    )


@pytest.mark.parametrize("api", BOTH)
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_has_the_same_result(api: ModuleType, name: str, place: Place) -> None:
    function, expected = EXAMPLES[name]
    assert function(api, place) == expected
