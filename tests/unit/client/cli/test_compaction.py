"""`vela compact` prints how far the topic is compacted, and so does `vela topics compaction`."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.client.cli.conftest import Vela
from tests.unit.client.cli.fake_console import FakeConsole

PATH = "topics/persistent/public/default/orders/compaction"
ROW: dict[str, Any] = {
    "topic": "persistent://public/default/orders", "partition": -1, "state": "SUCCESS", "last_error": "",
    "horizon": "3:7", "kept_messages": 1200, "kept_bytes": 34_000, "removed_messages": 5, "duration_ms": 12,
    "backlog_messages": 3, "backlog_bytes": 99, "started_at": None, "succeeded_at": None, "failed_at": None,
    "retry_at": None,
}  # fmt: skip


def test_a_receipt_is_followed_by_the_state(vela: Vela, console: FakeConsole) -> None:
    console.answers[f"GET {PATH}"] = {"compactions": [ROW]}
    lines = vela("compact orders --yes").stdout.splitlines()
    assert any(line.startswith("applied act") for line in lines)
    assert lines[-1].split() == ["orders", "succeeded", "1,200", "34.0", "kB", "3", "3:7", "–"]


def test_a_plan_alone_and_json_show_no_state(vela: Vela, console: FakeConsole) -> None:
    vela("compact orders --plan-only")
    vela("compact orders --yes --json")
    assert PATH not in console.paths()


def test_a_topic_that_was_never_compacted_is_shown_as_not_run(vela: Vela, console: FakeConsole) -> None:
    fresh = dict.fromkeys(ROW) | {"topic": ROW["topic"], "state": "NOT_RUN", "last_error": ""}
    console.answers[f"GET {PATH}"] = {"compactions": [fresh]}
    assert vela("topics compaction orders").stdout.splitlines()[-1].split()[:4] == [
        "orders",
        "not",
        "run",
        "–",
    ]
    assert json.loads(vela("topics compaction orders --json").stdout) == {"compactions": [fresh]}
