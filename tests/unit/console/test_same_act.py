"""The same act as a command and as a request: what is copied asks for exactly this act."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner

from broker.acts.requests import KINDS, ActView
from console.words.acts import KINDS as WORDS
from console.words.same_act import same_act
from vela.cli.acts.flow import Asked
from vela.cli.root import cli

THEN = datetime(2026, 1, 1, tzinfo=UTC)
URL = "http://127.0.0.1:8000/api/v1"
ACT = ActView(
    id=4,
    kind="reset",
    state="planned",
    topic="persistent://public/default/it's mine",
    subscription="a b",
    parameters={},
    plan=None,
    result=None,
    error="",
    who="ada",
    origin="console",
    reason="",
    cursor_version=None,
    undo_of=None,
    undo_until=None,
    created_at=THEN,
    requested_at=THEN,
    finished_at=None,
)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"to": "id", "id": "1:2", "inclusive": False},
        {"name": "123", "properties": {"a": "b", "c": "$HOME 'x'"}, "messages": -5},
        {"name": "true", "like": "1.5", "bookmark": '"quoted"', "key": "a=b", "none": "null"},
    ],
)
def test_the_command_and_the_request_ask_for_the_same_act(
    parameters: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    same = same_act(replace(ACT, parameters=parameters), URL)
    assert same is not None
    asked: list[Asked] = []
    monkeypatch.setattr("vela.cli.commands.acts.carry_out", lambda act, consent: asked.append(act))
    program, *words = shlex.split(same.command)
    assert program == "vela"
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    (command,) = asked
    assert (command.kind, command.topic, command.subscription) == ("reset", ACT.topic, "a b")
    assert command.parameters == parameters
    document = json.loads(shlex.split(same.request)[-1])
    assert document == {
        "kind": "reset",
        "topic": ACT.topic,
        "subscription": "a b",
        "parameters": parameters,
    }


def test_a_shown_publish_command_has_a_placeholder_for_the_message() -> None:
    same = same_act(replace(ACT, kind="publish", subscription=""), URL)
    assert same is not None
    assert same.needs_message
    assert same.needs_value
    assert "value=…" in same.command


def test_a_shown_publish_command_of_a_message_without_a_value_asks_for_none() -> None:
    same = same_act(replace(ACT, kind="publish", subscription="", parameters={"null_value": True}), URL)
    assert same is not None
    assert (same.needs_message, same.needs_value) == (True, False)
    assert same.command.endswith("null_value=true")


def test_an_undo_names_the_act_and_a_clients_act_has_no_other_form() -> None:
    same = same_act(replace(ACT, kind="undo", undo_of=3), URL)
    assert same is not None
    assert same.command == "vela acts undo 3"
    assert f"{URL}/acts/3/undo" in same.request
    assert same_act(replace(ACT, kind="seek"), URL) is None


@pytest.mark.parametrize(
    "kind",
    sorted(kind for kind in WORDS if kind != "undo" and not (kind in KINDS and KINDS[kind].can_be_requested)),
)
def test_an_act_that_cannot_be_planned_has_no_other_form(kind: str) -> None:
    assert same_act(replace(ACT, kind=kind), URL) is None


def test_a_json_payload_of_the_docs_is_read_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Asked] = []
    monkeypatch.setattr("vela.cli.commands.acts.carry_out", lambda act, consent: asked.append(act))
    words = shlex.split("""acts plan publish orders value='"{\\"order\\": 17}"' encoding=json""")
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert asked[0].parameters == {"value": '{"order": 17}', "encoding": "json"}
