"""The credentials with which the sink publishes: options, or the driver's environment."""

from __future__ import annotations

import pytest

from pipeline.errors import InvalidOption
from pipeline.sink.options import WriteOptions


def parsed(**options: str) -> tuple[str, str]:
    found = WriteOptions.parse({"serviceUrl": "pulsar://x", **options})
    return found.token, found.token_file


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOKEN", "TOKEN_FILE", "CLIENT_TRUST_FILE", "CLIENT_CERTIFICATE_FILE", "CLIENT_KEY_FILE"):
        monkeypatch.delenv(f"VELA_{name}", raising=False)


def test_without_an_option_or_a_variable_there_is_no_token() -> None:
    assert parsed() == ("", "")


def test_an_option_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VELA_TOKEN", "environment")
    assert parsed() == ("environment", "")
    assert parsed(token="option") == ("option", "")
    assert parsed(tokenFile="/file") == ("", "/file")
    monkeypatch.delenv("VELA_TOKEN")
    monkeypatch.setenv("VELA_TOKEN_FILE", "/environment")
    assert parsed() == ("", "/environment")
    assert parsed(token="option") == ("option", "")


def test_a_token_is_not_shown_with_the_options() -> None:
    assert "abc" not in repr(WriteOptions.parse({"serviceUrl": "pulsar://x", "token": "abc"}))


def test_files_for_tls_come_from_options_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def parsed(**options: str) -> tuple[str, str, str]:
        found = WriteOptions.parse({"serviceUrl": "pulsar+ssl://x", **options})
        return found.tls_trust_file, found.tls_certificate_file, found.tls_key_file

    assert parsed() == ("", "", "")
    assert parsed(tlsTrustFile="/a", tlsCertificateFile="/b", tlsKeyFile="/c") == ("/a", "/b", "/c")
    for name in ("TRUST", "CERTIFICATE", "KEY"):
        monkeypatch.setenv(f"VELA_CLIENT_{name}_FILE", f"/{name}")
    assert parsed(tlsTrustFile="/a") == ("/a", "/CERTIFICATE", "/KEY")
    monkeypatch.delenv("VELA_CLIENT_KEY_FILE")
    with pytest.raises(InvalidOption, match="tlsCertificateFile and tlsKeyFile need each other"):
        parsed()
