"""docs/reference/policies.md: every policy with its values and its default, and no other policy."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum

import pytest

from broker.core.policies import FIELDS, MOST, Policies, PolicyField, PolicyLevel
from tests.unit.docs.pages import code_names, page, rows, section


def documented() -> dict[str, list[str]]:
    """Return, for each policy, the cells of its row after the name."""
    return {
        name: cells[1:]
        for cells in rows(section(page("reference/policies.md"), "Fields"))
        for name in code_names(cells[0])
    }


def test_every_policy_is_documented_and_no_other() -> None:
    assert sorted(documented()) == sorted(FIELDS)


@pytest.mark.parametrize("field", FIELDS.values(), ids=list(FIELDS))
def test_the_values_of_every_policy_are_documented(field: PolicyField) -> None:
    takes = documented()[field.name][0]
    if issubclass(field.kind, StrEnum):
        assert code_names(takes) == list(field.kind)
    elif field.kind is bool:
        assert takes.startswith("true, false")
    else:
        assert takes.startswith(f"from {field.least}")
        assert (f"to {field.most:,}" in takes) == (field.most != MOST)
    assert ("namespaces only" in takes) == (field.levels == {PolicyLevel.NAMESPACE})


@pytest.mark.parametrize("name", FIELDS)
def test_the_default_of_every_policy_is_documented(name: str) -> None:
    default = documented()[name][1]
    if "VELA_" not in default:
        value = asdict(Policies())[name]
        assert default == f"`{str(value).lower() if isinstance(value, bool) else value}`"
