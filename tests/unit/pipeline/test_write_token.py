"""The token with which the sink publishes: an option, or the driver's environment; one of the two kinds."""

from __future__ import annotations

import pytest

from pipeline.sink.options import WriteOptions


def parsed(**options: str) -> tuple[str, str]:
    found = WriteOptions.parse({"serviceUrl": "pulsar://x", **options})
    return found.token, found.token_file


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VELA_TOKEN", "VELA_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)


def test_without_anything_there_is_no_token() -> None:
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
