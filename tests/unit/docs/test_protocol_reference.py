"""docs/reference/binary-protocol.md and websocket-api.md: commands, errors, parameters and close codes by name."""

from __future__ import annotations

import inspect

from broker.core import errors
from broker.core.errors import BrokerError
from broker.transports.server_errors import server_error
from tests.unit.docs.pages import code_names, page, python_files, rows, section
from vela.wire.binary.decoding import _DECODERS, _UNBUILT
from vela.wire.binary.enums import ServerError
from vela.wire.json.errors import CloseCode
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand, ServerError as PulsarServerError

BINARY = page("reference/binary-protocol.md")
WEBSOCKET = page("reference/websocket-api.md")


def test_every_command_a_client_may_send_has_its_row() -> None:
    may_send = {*_DECODERS, *_UNBUILT, BaseCommand.SEND}
    documented = [
        name.strip() for cells in rows(section(BINARY, "From the client")) for name in cells[0].split(",")
    ]
    assert sorted(documented) == sorted(BaseCommand.Type.Name(kind) for kind in may_send)


def test_every_error_has_its_row_with_the_code_that_clients_see() -> None:
    documented = {cells[0]: cells[1:3] for cells in rows(section(BINARY, "Errors"))}
    classes = [
        each
        for _, each in inspect.getmembers(errors, inspect.isclass)
        if issubclass(each, BrokerError) and each.__module__ == errors.__name__
    ]
    assert documented == {each.__name__: [each.code, "yes" if each.retriable else "no"] for each in classes}
    for each in classes:
        assert PulsarServerError.Value(each.code) == server_error(each("text"))


def test_errors_said_not_to_be_raised_are_not_raised() -> None:
    unraised = {cells[0] for cells in rows(section(BINARY, "Errors")) if cells[3] == "not raised yet"}
    code = "\n".join(path.read_text(encoding="utf-8") for path in python_files("broker"))
    assert unraised
    for name in unraised:
        assert f"{name}(" not in code.replace(f"class {name}(", ""), f"{name} is raised by now"
    assert "TopicNotFound(" in code.replace("class TopicNotFound(", "")
    assert ServerError.TOPIC_NOT_FOUND == server_error(errors.TopicNotFound("text"))


def test_every_close_code_has_its_row() -> None:
    documented = [int(cells[0]) for cells in rows(section(WEBSOCKET, "Close codes"))]
    assert documented == sorted(CloseCode)


def test_every_query_parameter_the_code_reads_is_documented() -> None:
    source = "".join(
        path.read_text(encoding="utf-8")
        for path in python_files("vela/wire/json")
        if path.name in ("options.py", "paths.py")
    )
    documented = {
        name for cells in rows(section(WEBSOCKET, "Query parameters")) for name in code_names(cells[0])
    }
    assert documented
    for name in documented:
        assert f'"{name}"' in source, f"{name} is not read"
    read = {name for name in _quoted(source) if name[:1].islower() and not name.islower() and name.isalpha()}
    assert read - documented - {"topics", "topicsPattern"} == set()


def _quoted(source: str) -> set[str]:
    return set(source.split('"')[1::2])
