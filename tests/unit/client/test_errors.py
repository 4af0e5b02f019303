"""vela.errors: names and codes are Apache's, and every refusal of the broker has a class."""

from __future__ import annotations

import _pulsar
import pytest

from vela import errors
from vela.errors import BY_RESULT, BY_SERVER_ERROR, Result, VelaError, from_server_error
from vela.wire.binary.enums import ServerError


def test_codes_equal_those_of_apaches_client() -> None:
    theirs = {name: int(value) for name, value in _pulsar.Result.__members__.items()}
    assert {result.name: int(result) for result in Result} == theirs


def test_every_code_has_the_class_of_its_name() -> None:
    assert {code.name: error.__name__ for code, error in BY_RESULT.items()} == {
        result.name: result.name for result in Result if result is not Result.Ok
    }


def test_every_exception_of_apaches_client_is_there() -> None:
    theirs = {
        name
        for name, value in vars(_pulsar).items()
        if isinstance(value, type) and issubclass(value, Exception) and name != "Error"
    }
    assert theirs <= set(errors.__all__)
    assert all(issubclass(getattr(errors, name), VelaError) for name in theirs)


@pytest.mark.parametrize("code", ServerError)
def test_every_refusal_has_a_class(code: ServerError) -> None:
    error = from_server_error(code, "the broker's words")
    assert type(error) is BY_SERVER_ERROR[code]
    assert str(error) == "the broker's words"
    assert error.error() is error.code is not Result.Ok


def test_an_unknown_refusal_is_an_unknown_error() -> None:
    error = from_server_error(999, "from a later broker")
    assert type(error) is errors.UnknownError
    assert error.retriable


def test_errors_that_the_protocol_calls_fatal_are_not_retriable() -> None:
    fatal = {3, 4, 5, 7, 8, 9, 11, 15, 16, 18, 19, 22, 25}
    assert all(not BY_SERVER_ERROR[ServerError(code)].retriable for code in fatal)
    passing = {ServerError.UNKNOWN_ERROR, ServerError.METADATA_ERROR, ServerError.PERSISTENCE_ERROR}
    passing |= {ServerError.SERVICE_NOT_READY, ServerError.TOO_MANY_REQUESTS}
    assert all(BY_SERVER_ERROR[code].retriable for code in passing)
