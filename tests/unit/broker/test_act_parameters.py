"""Parameters of acts: an error names what is wrong, and only valid values are accepted."""

from __future__ import annotations

from typing import Any

import pytest

from broker.acts.kinds.parameters import ActInvalid, json_schema
from broker.acts.kinds.registry import KINDS, find_kind


@pytest.mark.parametrize(
    ("kind", "raw", "complaint"),
    [
        ("reset", {}, "to is missing"),
        ("reset", {"to": "somewhere"}, "use earliest or latest or"),
        ("reset", {"to": ["earliest"]}, "use earliest or latest or"),
        ("reset", {"to": "time"}, "to time needs time_ms"),
        ("reset", {"to": "time", "time_ms": "now"}, "whole number from 0"),
        ("reset", {"to": "time", "time_ms": True}, "whole number from 0"),
        ("reset", {"to": "time", "time_ms": -1}, "whole number from 0"),
        ("reset", {"to": "latest", "time_ms": 5}, "does not belong to latest"),
        ("reset", {"to": "id", "id": 5}, "it takes text"),
        ("reset", {"to": "id", "id": "1:2\0"}, "without NUL"),
        ("reset", {"to": "id", "id": "1:2", "inclusive": "no"}, "true or false"),
        ("reset", {"to": "latest", "force": True}, "unknown parameter 'force'; this act takes to, time_ms"),
        ("skip", {"messages": 0}, "at least 1"),
        ("skip", {"messages": None}, "messages is missing"),
        ("clear", {"messages": 1}, "this act takes no parameters"),
        ("expire", {"to": "older"}, "to older needs older_ms"),
        ("disconnect", {}, "give exactly one of consumer and consumer_key"),
        ("disconnect", {"consumer": "a", "consumer_key": 1}, "give exactly one of consumer and consumer_key"),
        ("create_subscription", {"name": "a", "to": "shift", "messages": 1}, "there is none yet"),
        ("create_subscription", {"name": " ", "to": "latest"}, "spaces"),
        ("create_subscription", {"name": "x" * 1025, "to": "latest"}, "at most 1024"),
        ("create_bookmark", {"name": "x" * 1025, "to": "latest"}, "at most 1024"),
        (
            "create_subscription",
            {"name": "a", "to": "latest", "properties": {"k": 1}},
            "an object whose values are text",
        ),
    ],
)
def test_a_bad_parameter_is_refused_by_name(kind: str, raw: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ActInvalid) as refused:
        find_kind(kind).read(raw)
    assert complaint in str(refused.value)


def test_an_unknown_kind_lists_those_that_can_be_requested() -> None:
    with pytest.raises(ActInvalid) as refused:
        find_kind("obliterate")
    assert "reset, skip" in str(refused.value)
    assert "seek" not in str(refused.value)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_describes_its_parameters(kind: str) -> None:
    schema = json_schema(KINDS[kind].parameters)
    assert schema["additionalProperties"] is False
    assert all(each["description"] for each in schema["properties"].values())
    assert KINDS[kind].summary.endswith(".")


def test_schemas_carry_limits_choices_and_defaults() -> None:
    schema = json_schema(KINDS["create_subscription"].parameters)
    assert schema["required"] == ["to", "name"]
    assert schema["properties"]["type"]["default"] == "Shared"
    assert "like" in schema["properties"]["to"]["enum"]
    assert json_schema(KINDS["skip"].parameters)["properties"]["messages"]["minimum"] == 1
