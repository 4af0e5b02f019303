"""Jobs and their options: what is taken, what is refused, and that each job has its code."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from pipeline.errors import InvalidOption
from pipeline.jobs.catalogue import JOBS, find_job

TOPIC = "persistent://public/default/orders"


@pytest.mark.parametrize("name", JOBS)
def test_a_job_has_its_code_and_its_place_in_the_reference(name: str) -> None:
    from tests.unit.docs.pages import code_names, page, rows, section

    assert find_spec(f"pipeline.jobs.{JOBS[name].module}") is not None
    text = (
        section(page("reference/pipeline-jobs.md"), "Jobs").partition(f"### {name}\n")[2].partition("### ")[0]
    )
    documented = {option for cells in rows(text) for option in code_names(cells[0])}
    assert {option.name for option in JOBS[name].options} <= documented


def test_defaults_are_filled_in() -> None:
    options = find_job("replay").checked({"to": "again"})
    assert options == {
        "to": "persistent://public/default/again",
        "where": "",
        "starting_time": "",
        "ending_time": "",
        "limit": "10000",
        "messages_per_s": "1000",
        "max_replays": "1",
        "preview": "true",
    }
    assert find_job("replay").checked(dict.fromkeys(options, "") | {"to": " again "}) == options
    assert find_job("replay").subject(TOPIC, options) == f"{TOPIC} → persistent://public/default/again"
    assert find_job("insights").subject(TOPIC, {"hours": "2"}) == TOPIC


@pytest.mark.parametrize(
    ("job", "options", "says"),
    [
        ("export", {}, "option to is missing: name of the new folder"),
        ("export", {"to": "x" * 201}, "at most 200 characters"),
        ("export", {"to": "a/../b"}, "without .. and without /"),
        ("export", {"to": "a/./b"}, "without .. and without /"),
        ("export", {"to": "a\nb"}, "without .. and without /"),
        ("export", {"to": "a/.b"}, "names that begin with a dot are reserved"),
        ("export", {"to": "x", "format": "PDF"}, "it must be parquet or ndjson or csv"),
        ("export", {"to": "x", "starting_time": "2026"}, "too few milliseconds"),
        ("replay", {"to": "a/b/c/d/e"}, "option to"),
        ("replay", {"to": "x", "limit": "0"}, "whole number from 1 to 10000000"),
        ("replay", {"to": "x", "limit": "ten"}, "whole number"),
        ("replay", {"to": "x", "preview": "perhaps"}, "it must be"),
        ("replay", {"to": "x", "where": "x" * 5000}, "is too long"),
        ("insights", {"hour": "3"}, "unknown option 'hour': insights takes hours"),
    ],
)
def test_a_wrong_option_is_named(job: str, options: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        find_job(job).checked(options)
    assert says in str(caught.value)


def test_a_schedule_of_exports_needs_a_name_that_changes() -> None:
    export = find_job("export")
    export.check_repeatable(export.checked({"to": "orders/{time}"}))
    with pytest.raises(InvalidOption, match=r"put \{time\} in it, such as orders/\{time\}"):
        export.check_repeatable(export.checked({"to": "orders"}))
    find_job("import").check_repeatable(find_job("import").checked({"from": "orders"}))


def test_an_unknown_job_names_the_others() -> None:
    with pytest.raises(
        InvalidOption,
        match="there is no job 'x': the jobs are export, import, replay, insights, compact, offload",
    ):
        find_job("x")
