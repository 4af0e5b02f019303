"""Acts on each partition: planned together, applied one after the other, and what became of each is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.plans import a_plan
from tests.unit.client.cli.conftest import Vela
from tests.unit.client.cli.fake_console import FakeConsole, a_result, an_act, problem

RESET = "reset orders billing --earliest"
ORDERS = "topics/persistent/public/default/orders"
BASE = "persistent://public/default/orders-partition-"


def row(partition: int, name: str = "billing", *, paused: bool = False) -> dict[str, Any]:
    return {"name": name, "topic": f"{BASE}{partition}", "paused": paused}


def lay_down(console: FakeConsole, *rows: dict[str, Any]) -> None:
    console.answers[f"GET {ORDERS}/subscriptions"] = {"subscriptions": list(rows), "next_after": None}
    console.answers[f"GET {ORDERS}"] = {"partitions": 3}


def planned_on(console: FakeConsole) -> list[str]:
    """The partitions that an act was planned on."""
    return [each.body["topic"].removeprefix(BASE) for each in console.asked if each.path == "acts"]


def test_all_partitions_are_planned_before_any_is_applied(vela: Vela, console: FakeConsole) -> None:
    lay_down(console, row(10), row(1, "mail"), row(9), row(0))
    done = vela(f"{RESET} --all-partitions", typed="y\n")
    assert (done.exit_code, "apply these 3?" in done.stderr) == (0, True)
    assert console.paths("POST") == ["acts"] * 3 + ["acts/7/apply"] * 3
    assert planned_on(console) == ["0", "9", "10"]
    nowhere = vela("reset orders nope --earliest --all-partitions")
    assert (nowhere.exit_code, "no subscription nope" in nowhere.stderr) == (3, True)


def test_partitions_that_lack_the_subscription_are_named(vela: Vela, console: FakeConsole) -> None:
    lay_down(console, row(0), row(2))
    done = vela(f"{RESET} --all-partitions --yes")
    assert (done.exit_code, "there is no billing on orders-partition-1\n" in done.stderr) == (0, True)
    assert planned_on(console) == ["0", "2"]


def test_a_subscription_is_made_on_each_partition_once_all_are_planned(
    vela: Vela, console: FakeConsole
) -> None:
    lay_down(console, row(0, "mail"))
    done = vela("subscriptions create orders billing --earliest --all-partitions", typed="y\n")
    assert (done.exit_code, "apply these 3?" in done.stderr) == (0, True)
    assert console.paths("POST") == ["acts"] * 3 + ["acts/7/apply"] * 3
    assert planned_on(console) == ["0", "1", "2"]
    assert console.asked[-1].body == {}
    assert console.asked[2].body["parameters"] == {"name": "billing", "type": "Shared", "to": "earliest"}
    console.answers[f"GET {ORDERS}"] = {"partitions": 0}
    refused = vela("subscriptions create orders billing --all-partitions --yes")
    assert (refused.exit_code, "orders is not partitioned: leave" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("line", "rows", "left", "says"),
    [
        ("pause", [row(0, paused=True), row(1), row(2)], ["1", "2"], "is paused already on orders-partition-0\n"),
        ("resume", [row(0, paused=True), row(1), row(2)], ["0"], "not paused already on orders-partition-1, orders-"),
        ("subscriptions create", [row(0), row(2), row(1, "mail")], ["1"], "is there already on orders-partition-0, or"),
        # Where nothing would be left the broker says why not.
        ("pause", [row(0, paused=True), row(1, paused=True), row(2, paused=True)], ["0", "1", "2"], ""),
        ("subscriptions create", [row(0), row(1), row(2)], ["0", "1", "2"], ""),
    ],
)  # fmt: skip
def test_partitions_that_are_so_already_are_said_and_left(
    line: str, rows: list[dict[str, Any]], left: list[str], says: str, vela: Vela, console: FakeConsole
) -> None:
    lay_down(console, *rows)
    done = vela(f"{line} orders billing --all-partitions --yes")
    assert (done.exit_code, planned_on(console)) == (0, left), done.stderr
    assert (says in done.stderr, bool(done.stderr)) == (True, bool(says)), done.stderr


def test_what_was_applied_before_a_refusal_is_said(vela: Vela, console: FakeConsole) -> None:
    lay_down(console, row(0), row(1), row(2))
    moved = problem(409, "ActConflict", "the cursor moved; plan again", act=8)
    console.answers["POST acts/7/apply"] = an_act(state="applied", result=a_result())
    console.answers["POST acts/8/apply"] = moved
    acts = [an_act(id=7 + each, topic=f"{BASE}{each}", plan=a_plan()) for each in range(3)]
    console.answers["POST acts"] = list(acts)
    done = vela(f"{RESET} --all-partitions --yes")
    assert done.exit_code == 1
    assert done.stderr == (
        "vela: stopped at act 8 on orders-partition-1: refused: the cursor moved; plan again; already applied:"
        " act 7 on orders-partition-0; not tried: act 9 on orders-partition-2\n"
    )
    console.answers["POST acts"] = list(acts)
    error = json.loads(vela(f"{RESET} --all-partitions --yes --json").stderr)
    assert (error["code"], error["exit_code"], error["act"], error["applied"], error["not_tried"]) == (
        "PartlyApplied", 1, 8, [7], [9],
    )  # fmt: skip
    console.answers["POST acts"] = list(reversed(acts[:2]))
    first = vela(f"{RESET} --all-partitions --yes")
    assert (first.exit_code, "already applied: none; not tried: act 7 on" in first.stderr) == (4, True)


def test_a_plan_that_is_refused_names_its_partition(vela: Vela, console: FakeConsole) -> None:
    lay_down(console, row(0), row(1))
    console.answers[f"GET {ORDERS}"] = {"partitions": 2}
    console.answers["POST acts"] = [
        an_act(topic=f"{BASE}0", plan=a_plan()),
        problem(422, "MetadataError", "no"),
    ]
    done = vela(f"{RESET} --all-partitions --yes")
    assert (done.exit_code, done.stderr) == (
        4, "vela: orders-partition-1: no; nothing was changed on any partition\n",
    )  # fmt: skip
    assert console.paths("POST") == ["acts", "acts"]
