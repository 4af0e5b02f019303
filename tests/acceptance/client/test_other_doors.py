"""URLs of the wrong kind for Vela's ports, with and without TLS in front: the error comes soon and names the cause."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import vela
import vela.aio
from tests.support.byte_relay import relay
from tests.support.certificates import Authority
from tests.support.vela import VelaProcess
from tests.support.wrong_urls import ClientClass, refusal
from vela.aio.connections import opening


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients check sooner which protocol a silent port speaks. By default, they wait a second."""
    monkeypatch.setattr(opening, "_PATIENCE_S", 0.2)


BOTH = pytest.mark.parametrize("kind", [vela.aio.Client, vela.Client], ids=["aio", "blocking"])


@BOTH
@pytest.mark.parametrize(
    ("scheme", "port", "said"),
    [
        ("wss", "VELA_HTTP_PORT", "does not speak TLS; .* begins with ws://"),
        ("pulsar+ssl", "VELA_HTTP_PORT", "does not speak TLS; .* begins with ws://"),
        ("pulsar+ssl", "VELA_PULSAR_PORT", "does not speak TLS.* begins with pulsar://"),
        ("wss", "VELA_PULSAR_PORT", "does not speak TLS.* begins with pulsar://"),
        ("pulsar", "VELA_HTTP_PORT", "that is HTTP; .* begins with ws://"),
        ("ws", "VELA_PULSAR_PORT", "begins with pulsar://"),
    ],
)
async def test_a_url_that_does_not_fit_a_port_without_tls_names_the_right_scheme(
    kind: ClientClass, scheme: str, port: str, said: str, shared_vela: VelaProcess
) -> None:
    url = f"{scheme}://127.0.0.1:{shared_vela.environment[port]}"
    assert re.search(said, await refusal(kind, url))


@BOTH
@pytest.mark.parametrize("port", ["VELA_HTTP_PORT", "VELA_PULSAR_PORT"])
@pytest.mark.parametrize("scheme", ["ws", "pulsar"])
async def test_a_url_that_does_not_fit_a_port_with_tls_names_the_right_scheme(
    kind: ClientClass, scheme: str, port: str, shared_vela: VelaProcess, tmp_path: Path
) -> None:
    context = Authority(tmp_path).issue("vela", "localhost").server_context()
    async with relay(int(shared_vela.environment[port]), context) as door:
        said = await refusal(kind, f"{scheme}://127.0.0.1:{door}")
    assert "speaks TLS" in said
    assert ("begins with wss://" if scheme == "ws" else "begins with pulsar+ssl://") in said
