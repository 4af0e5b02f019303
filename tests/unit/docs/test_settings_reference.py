"""docs/reference/settings.md: every variable that the code reads and no other, with its real default."""

from __future__ import annotations

import ast
import re
from dataclasses import fields

import pytest

from broker.environment import Variable, variables_of
from config.environment import ProjectSettings
from tests.unit.docs.pages import code_names, page, python_files, rows

CODE = ("broker", "config", "console", "pipeline", "vela")
VARIABLE = re.compile(r"VELA_[A-Z0-9_]+|DATABASE_URL")


def documented() -> dict[str, list[str]]:
    """Return the page's row for each variable."""
    return {cells[0].strip("`"): cells for cells in rows(page("reference/settings.md"))}


def names_in_code() -> set[str]:
    """Return every string in the code that is exactly the name of a variable."""
    found: set[str] = set()
    for path in python_files(*CODE):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and VARIABLE.fullmatch(node.value)
            ):
                found.add(node.value)
    return found


def test_every_variable_of_the_code_is_documented_and_every_documented_one_is_in_the_code() -> None:
    assert sorted(documented()) == sorted(names_in_code())


def plain_defaults() -> list[tuple[str, str]]:
    """Return the name and the default of each row whose default is a value and not a sentence."""
    return [
        (name, default[0])
        for name, cells in documented().items()
        if len(default := code_names(cells[1])) == 1
        and cells[1] == f"`{default[0]}`"
        and "⟨" not in default[0]
    ]


@pytest.mark.parametrize(("name", "default"), plain_defaults())
def test_a_documented_default_changes_nothing(name: str, default: str) -> None:
    given = {name: default}
    assert ProjectSettings.from_environment(given) == ProjectSettings.from_environment({})


def test_the_test_of_defaults_can_fail() -> None:
    assert len(plain_defaults()) > 20
    assert ProjectSettings.from_environment({"VELA_TICK_MS": "999"}) != ProjectSettings.from_environment({})


def declared() -> dict[str, Variable]:
    """Return the declaration of each variable."""
    return {variable.name: variable for variable in variables_of(ProjectSettings).values()}


def test_every_documented_variable_is_declared_except_those_of_the_command_line_and_the_tests() -> None:
    of_the_command_line = {"VELA_CONSOLE_URL", "VELA_PASSWORD", "VELA_PROFILE", "VELA_USER"} | {
        f"VELA_OAUTH2_{each}" for each in ("ISSUER_URL", "KEY_FILE", "AUDIENCE", "SCOPE")
    }
    of_the_tests = {"VELA_TEST_PG15_URL"}
    assert documented().keys() == declared().keys() | of_the_command_line | of_the_tests


@pytest.mark.parametrize("variable", declared().values(), ids=lambda variable: variable.name)
def test_a_variable_has_the_unit_that_it_is_documented_with(variable: Variable) -> None:
    assert documented()[variable.name][2] == variable.unit


def test_a_setting_that_has_a_default_is_documented_with_it() -> None:
    plain = dict(plain_defaults())
    for field in fields(ProjectSettings):
        variable = variables_of(ProjectSettings)[field.name]
        if isinstance(field.default, int):
            assert variable.name in plain, variable.name


def test_a_name_that_ends_with_a_unit_is_documented_with_that_unit() -> None:
    units = {"_MS": "ms", "_S": "s", "_BYTES": "bytes", "_PORT": "TCP port", "_ENTRIES": "entries"}
    for name, cells in documented().items():
        for ending, unit in units.items():
            if name.endswith(ending):
                assert cells[2] == unit, f"{name} has the unit {cells[2]!r}"
