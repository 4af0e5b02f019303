"""Errors of the JSON WebSocket API: their numbers, texts and close codes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.doors.handshake_errors import HandshakeRefused, InvalidQuery
from broker.doors.websocket.json.errors import (
    CloseCode,
    InvalidCommand,
    InvalidJson,
    UnexpectedBinaryFrame,
    WebSocketError,
    close_reason,
)
from vela.wire.errors import RemoteProtocolError


def test_errors_have_pulsars_numbers_and_texts() -> None:
    assert [(int(error), error.text) for error in WebSocketError] == [
        (1, "Failed to create producer"),
        (2, "Failed to subscribe"),
        (3, "Failed to de-serialize from JSON"),
        (4, "Failed to serialize to JSON"),
        (5, "Failed to authenticate client"),
        (6, "Client is not authorized"),
        (7, "Invalid payload encoding"),
        (8, "Unknown error"),
    ]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidJson("x"), CloseCode.INVALID_DATA),
        (InvalidCommand("x"), CloseCode.POLICY_VIOLATION),
        (UnexpectedBinaryFrame("x"), CloseCode.UNSUPPORTED_DATA),
    ],
)
def test_close_codes_are_legal_on_the_wire(error: InvalidJson, code: CloseCode) -> None:
    assert error.close_code == code
    assert 1000 <= code < 1015
    assert error.reason == "3: x"


def test_every_error_is_a_remote_protocol_error() -> None:
    for error in (InvalidJson("x"), HandshakeRefused(404, "x"), InvalidQuery("x")):
        assert isinstance(error, RemoteProtocolError)
    assert str(InvalidQuery("a is b")) == "Invalid query params: a is b"


@given(st.text())
def test_a_close_reason_fits_a_control_frame(text: str) -> None:
    assert len(close_reason(text).encode()) <= 123
    assert len(close_reason(text * 99).encode()) <= 123


def test_a_close_reason_is_cut_between_characters() -> None:
    assert close_reason("é" * 100) == "é" * 61
    assert close_reason("short") == "short"
