"""Roles: which programs each role runs, and how a container that cannot start says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.run.errors import StartRefused
from docker.roles import PIPELINE_ROLES, ROLES, commands, environment_of

URL = "postgresql://vela:word@postgres:5432/vela"


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    return {"DATABASE_URL": URL, "VELA_DATA_DIR": str(tmp_path / "data")}


@pytest.mark.parametrize(
    ("role", "endings"),
    [
        ("all", [["-m", "config.run"]]),
        ("migrate", [["-m", "config.run.prepare"]]),
        ("broker", [["runbroker"]]),
        ("console", [["runconsole"]]),
        ("worker", [["tick"], ["work"]]),
        ("beat", [["beat"]]),
        ("pipeline-worker", [["pipeline"]]),
    ],
)
def test_a_role_is_the_command_that_make_run_starts(
    role: str, endings: list[list[str]], variables: dict[str, str]
) -> None:
    lines = commands(role, environment_of(role, variables))
    assert [line[-len(ending) :] for line, ending in zip(lines, endings, strict=True)] == endings


def test_the_spark_worker_goes_to_the_master_it_is_told(variables: dict[str, str]) -> None:
    environment = environment_of("spark-worker", {**variables, "VELA_SPARK_MASTER": "spark://elsewhere:7077"})
    assert commands("spark-worker", environment)[0][-1] == "spark://elsewhere:7077"


@pytest.mark.parametrize("role", [role for role in ROLES if role != "all"])
def test_a_role_without_a_database_is_refused_and_the_setting_is_named(role: str) -> None:
    with pytest.raises(StartRefused, match="DATABASE_URL is not set"):
        environment_of(role, {})


def test_the_role_all_brings_its_own_database() -> None:
    assert "DATABASE_URL" not in environment_of("all", {})


@pytest.mark.parametrize("role", ["", "brokr", "broker console"])
def test_an_unknown_role_is_refused_with_the_list(role: str) -> None:
    with pytest.raises(StartRefused, match=", ".join(ROLES + PIPELINE_ROLES)):
        environment_of(role, {"DATABASE_URL": URL})


def test_a_setting_that_cannot_work_is_refused_by_name(variables: dict[str, str]) -> None:
    with pytest.raises(StartRefused, match="VELA_HTTP_PORT"):
        environment_of("broker", {**variables, "VELA_HTTP_PORT": "http"})
