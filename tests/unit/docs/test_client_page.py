"""docs/reference/client.md: every error, every method of a message, every schema and field."""

from __future__ import annotations

import pytest

import vela.schema
from tests.unit.docs.pages import code_names, page, rows, section
from vela import errors
from vela.message import Message

PAGE = page("reference/client.md")


def test_every_error_is_documented_with_whether_it_is_retriable() -> None:
    documented = {
        code_names(cells[0])[0]: cells[2] == "yes"
        for cells in rows(section(PAGE, "Errors"))
        if len(cells) == 3
    }
    ours = {
        name: getattr(errors, name).retriable
        for name in errors.__all__
        if isinstance(getattr(errors, name), type)
        and issubclass(getattr(errors, name), errors.VelaError)
        and name not in ("VelaError", "PulsarException")
    }
    assert documented == ours


def test_every_method_of_a_message_is_documented() -> None:
    text = section(PAGE, "Messages")
    methods = [name for name in vars(Message) if not name.startswith("_") and name not in ("body", "entry")]
    assert methods
    assert [name for name in methods if f"{name}()" not in text] == []


@pytest.mark.parametrize(
    "name", sorted(set(vela.schema.__all__) - {"Field", "Null", "SchemaInfo", "SchemaType"})
)
def test_every_schema_and_field_is_documented(name: str) -> None:
    assert name in section(PAGE, "Schemas")
