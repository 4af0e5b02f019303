"""A receipt shows the counts that its kind of act changes, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from console.words.receipts import partition_table, receipt_rows

ZEROS = {"replayed_messages": 0, "skipped_messages": 0, "consumers_closed": 0, "consumers_kept": 2}


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        ("reset", ["Delivered again", "Skipped", "Consumers closed"]),
        ("clear", ["Skipped"]),
        ("delete_subscription", ["Skipped", "Consumers closed"]),
        ("disconnect", ["Consumers closed"]),
        ("redrive", ["Published again"]),
        ("redeliver", []),
        ("pause", []),
        ("create_subscription", []),
        ("set_topic_policies", []),
    ],
)
def test_a_receipt_has_the_counts_of_its_kind(kind: str, labels: list[str]) -> None:
    result = ZEROS | ({"redriven_messages": 0} if kind == "redrive" else {})
    assert [row.label for row in receipt_rows(kind, ZEROS, result)] == labels


def test_a_receipt_shows_the_allowed_drift_and_acks_since_the_plan() -> None:
    plan = {"replayed_messages": 4, "allowed_drift_messages": 60, "drift": {"cause": "acked"}}
    result = {**ZEROS, "replayed_messages": 7, "acked_meanwhile_messages": 4}
    rows = receipt_rows("reset", plan, result)
    assert [(row.planned, row.under_planned, row.done) for row in rows] == [
        (4, "up to 60 more", 7),
        (None, "", 0),
        (None, "", 0),
        (None, "", 4),
    ]
    assert rows[-1].under_label == "3 of them are delivered again too"


@pytest.mark.parametrize(
    ("kind", "plan", "error", "columns", "adds_detail"),
    [
        ("reset", {"current": {}}, "", ("replayed_messages", "skipped_messages"), True),
        ("disconnect", {}, "", ("consumers_closed",), True),
        ("redeliver", {}, "", (), False),
        ("redeliver", {}, "the broker stopped", (), True),
    ],
)
def test_the_partitions_of_an_act_have_its_columns(
    kind: str, plan: dict[str, Any], error: str, columns: tuple[str, ...], adds_detail: bool
) -> None:
    part = {"partition": 0, "topic": "t-partition-0", **ZEROS}
    done = {**part, "error": error} if error else part
    table = partition_table(kind, {**plan, "partitions": [part]}, {"partitions": [done]})
    assert (table.changes, table.adds_detail) == (columns, adds_detail)
