"""Acts on a partitioned topic: one act, whose plan and receipt have a row for each partition."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.plans import a_partitioned_plan
from tests.unit.client.cli.conftest import Vela
from tests.unit.client.cli.fake_console import FakeConsole, a_result, an_act

ORDERS = "persistent://public/default/orders"


def lay_down(console: FakeConsole) -> None:
    plan = a_partitioned_plan([4, 0, 1200])
    parts = [
        {**a_result(), "partition": 0, "replayed_messages": 5, "skipped_messages": 0, "backlog_messages": 17},
        {**a_result(), "partition": 1, "replayed_messages": 0, "skipped_messages": 0, "backlog_messages": 12},
        {"partition": 2, "error": "not tried, because an earlier partition failed"},
    ]
    result = {**a_result(), "replayed_messages": 5, "partitions": parts}
    console.answers["POST acts"] = an_act(topic=ORDERS, plan=plan)
    console.answers["POST acts/7/apply"] = an_act(topic=ORDERS, state="applied", plan=plan, result=result)


def test_a_partitioned_topic_gets_one_act_with_a_row_for_each_partition(
    vela: Vela, console: FakeConsole
) -> None:
    lay_down(console)
    done = vela("reset orders billing --earliest", typed="y\n")
    assert (done.exit_code, "apply it?" in done.stderr) == (0, True), done.stderr
    assert console.paths("POST") == ["acts", "acts/7/apply"]
    assert console.asked[0].body["parameters"] == {"to": "earliest"}
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["backlog", "36", "messages", "1,240", "messages"] in lines
    assert ["2", "1,200", "0", "1", "12", "1,212", "1:4", "1:0"] in lines
    assert ["0", "5", "(planned", "4)", "0", "17", "done"] in lines
    assert [
        "2",
        "–",
        "–",
        "–",
        *["not", "tried,", "because", "an", "earlier", "partition", "failed"],
    ] in lines


@pytest.mark.parametrize(
    ("line", "kind", "parameters"),
    [
        ("reset orders billing --earliest", "reset", {"to": "earliest"}),
        ("pause orders billing", "pause", {}),
        ("subscriptions create orders new", "create_subscription", {"name": "new", "type": "Shared", "to": "latest"}),
        ("bookmarks create orders b", "create_bookmark", {"name": "b", "to": "latest"}),
        ("bookmarks delete orders b", "delete_bookmark", {"name": "b"}),
    ],
)  # fmt: skip
def test_partitions_may_be_chosen(
    line: str, kind: str, parameters: dict[str, Any], vela: Vela, console: FakeConsole
) -> None:
    lay_down(console)
    assert vela(f"{line} --partition 0,2 --yes").exit_code == 0
    asked = console.asked[0].body
    assert (asked["kind"], asked["parameters"]) == (kind, {**parameters, "partitions": "0,2"})
