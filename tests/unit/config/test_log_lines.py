"""The lines of Vela's logs: each event is one line, whatever a client's text contains."""

from __future__ import annotations

import ast
import json
import logging
import sys
from logging.config import dictConfig

import pytest

from config import json_line, log_lines
from config.json_line import FIELDS, JsonLine
from config.log_lines import LogFormat, TextLine, formatter_of, say, use_format
from config.run.children.child import Child
from tests.unit.docs.pages import code_names, page, python_files, rows

HOSTILE = "red\x1b[31m\nFAKE ERROR \u2028\x85 \ud800 naïve"


def record(message: str, *values: object, **fields: object) -> logging.LogRecord:
    """An event as a logger makes it, with `extra`."""
    made = logging.getLogger("broker.log.writer").makeRecord(
        "broker.log.writer", logging.WARNING, "writer.py", 1, message, values, None, extra=fields
    )
    made.created, made.process = 1_790_000_000.25, 77
    return made


def test_a_json_line_has_the_documented_fields_in_order() -> None:
    line = JsonLine().format(record("%s is closed", "orders", topic="persistent://a/b/orders"))
    assert json.loads(line) == {
        "time": "2026-09-21T14:13:20.250000Z",
        "level": "WARNING",
        "logger": "broker.log.writer",
        "pid": 77,
        "message": "orders is closed",
        "topic": "persistent://a/b/orders",
    }
    assert next(iter(json.loads(line))) == "time"


@pytest.mark.parametrize("formatter", [TextLine(), JsonLine()], ids=["text", "json"])
def test_a_hostile_text_is_one_line_without_control_characters(formatter: logging.Formatter) -> None:
    line = formatter.format(record("%s is gone", HOSTILE, topic=HOSTILE))
    assert line.isprintable()
    assert len(line.splitlines()) == 1


def test_a_json_line_gives_back_the_hostile_text() -> None:
    assert json.loads(JsonLine().format(record("%s", HOSTILE)))["message"] == HOSTILE


def test_a_traceback_is_a_field() -> None:
    event = record("failed")
    try:
        raise ValueError("two\nlines")
    except ValueError:
        event.exc_info = sys.exc_info()
    line = JsonLine().format(event)
    assert len(line.splitlines()) == 1
    assert json.loads(line)["exception"].endswith("ValueError: two\nlines")


def test_fields_that_a_library_attaches_are_left_out() -> None:
    line = JsonLine().format(record("refused", request="GET /?token=s3cret", password="s3cret"))
    assert "s3cret" not in line


def keys_of_log_calls() -> set[str]:
    """Return the keys of every `extra={…}`, and those of the dicts that the methods `_log_fields` return."""
    dicts: list[ast.expr] = []
    for path in python_files("broker", "config", "console"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "extra":
                dicts.append(node.value)
            elif isinstance(node, ast.FunctionDef) and node.name == "_log_fields":
                dicts += [
                    each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value
                ]
    return {
        key.value
        for each in dicts
        if isinstance(each, ast.Dict)
        for key in each.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def test_every_field_of_a_log_call_is_documented_and_no_other() -> None:
    assert keys_of_log_calls() == set(FIELDS)
    documented = {name for cells in rows(page("reference/logs.md")) for name in code_names(cells[0])}
    always = {"time", "level", "logger", "pid", "message"}
    assert documented == {*FIELDS, *always, "exception", "stack"}


@pytest.mark.parametrize(("log_format", "kind"), [("text", TextLine), ("json", JsonLine)])
def test_the_setting_chooses_the_formatter(log_format: LogFormat, kind: type) -> None:
    handler = {"class": "logging.StreamHandler", "formatter": "line"}
    name = f"test-{log_format}"
    dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"line": formatter_of(log_format)},
            "handlers": {"here": handler},
            "loggers": {name: {"handlers": ["here"]}},
        }
    )
    assert type(logging.getLogger(name).handlers[0].formatter) is kind
    assert logging.getLogger(name).handlers[0].formatter.__module__ in (
        json_line.__name__,
        log_lines.__name__,
    )


def test_the_supervisor_prints_json_lines_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_lines._Saying, "formatter", log_lines._Saying.formatter)
    say("vela ready")
    use_format("json")
    say("broker died", level=logging.WARNING)
    plain, line = capsys.readouterr().out.splitlines()
    assert plain == "vela ready"
    assert json.loads(line) | {"time": "", "pid": 0} == {
        "time": "",
        "level": "WARNING",
        "logger": "config.run",
        "pid": 0,
        "message": "broker died",
    }


def test_the_last_words_of_a_child_are_its_message(tmp_path_factory: pytest.TempPathFactory) -> None:
    log = tmp_path_factory.mktemp("log") / "broker.log"
    child = Child(name="broker", command=[], is_up=bool, environment={}, log=log)
    log.write_text(JsonLine().format(record("the port is taken")) + "\n", encoding="ascii")
    assert child.last_words() == "the port is taken"
