"""Which messages are traced, and which spans of deliveries and acks there are. No collector is asked."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from opentelemetry.trace import get_current_span

from broker.core.entry import StoredEntry
from broker.core.position import Position
from broker.subscription import traced_deliveries
from broker.subscription.requests import AckRequest, Delivery
from broker.subscription.traced_deliveries import TracedDeliveries
from broker.tracing import tracing as module
from broker.tracing.load import load_tracing
from broker.tracing.tracing import Tracing
from vela.wire.entry import encode_single

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SAMPLED = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture(scope="module")
def tracing() -> Iterator[Tracing]:
    made = load_tracing(is_on=True)
    assert made is not None
    yield made
    made._provider.shutdown()


def entry(properties: dict[str, str]) -> StoredEntry:
    """Return an entry of one message with these properties."""
    data = encode_single(
        producer_name="p", sequence_id=0, publish_time_ms=1, payload=b"traceparent", properties=properties
    )
    return StoredEntry(1, 0, 1, 0, None, 0, 1, 1, len(data), data)


def test_a_sampled_trace_is_found(tracing: Tracing) -> None:
    parent = tracing.parent_of(entry({"other": "x", "traceparent": SAMPLED, "tracestate": "a=1"}).data)
    assert parent is not None
    span = get_current_span(parent).get_span_context()
    assert (f"{span.trace_id:032x}", span.trace_state.get("a")) == (TRACE, "1")


@pytest.mark.parametrize(
    "state",
    ["secret", "a=1,secret", "a=" + "x" * 600, "a=1,a=2", ",".join(f"a{number}=1" for number in range(40))],
    ids=["nonsense", "half nonsense", "too long", "repeated", "too many"],
)
def test_an_invalid_trace_state_is_left_out_without_a_line_in_the_log(
    tracing: Tracing, state: str, caplog: pytest.LogCaptureFixture
) -> None:
    parent = tracing.parent_of(entry({"traceparent": SAMPLED, "tracestate": state}).data)
    assert parent is not None
    assert not get_current_span(parent).get_span_context().trace_state
    assert caplog.text == ""


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"other": "traceparent"},
        {"traceparent": SAMPLED[:-1] + "0"},
        {"traceparent": "nonsense"},
        {"traceparent": f"00-{'0' * 32}-00f067aa0ba902b7-01"},
        {"traceparent": SAMPLED + "-" + "x" * 1000},
        {"Traceparent": SAMPLED},
    ],
    ids=["none", "in a value", "not sampled", "nonsense", "zero", "too long", "another name"],
)
def test_any_other_message_is_not_traced(
    tracing: Tracing, properties: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    assert tracing.parent_of(entry(properties).data) is None
    assert caplog.text == ""


def test_bytes_that_are_not_an_entry_are_not_traced(tracing: Tracing) -> None:
    data = entry({"traceparent": SAMPLED}).data
    for cut in range(len(data)):
        tracing.parent_of(data[:cut])
    assert tracing.parent_of(data[:30] + b"\xff" * 20 + data[50:]) is None


def test_spans_above_the_limit_are_dropped_and_counted_in_one_line(
    tracing: Tracing, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[Any] = []
    seconds = iter([5.0] * 4 + [6.5] * 4)
    monkeypatch.setattr(module, "MOST_SPANS_PER_S", 2)
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(tracing, "_make", lambda *values, **_: made.append(values))
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            tracing.published("t", [entry({"traceparent": SAMPLED})], waited_s=0.0, stored_ms=1)
    assert len(made) == 3
    assert [each.getMessage().split(":")[1].split(";")[0] for each in caplog.records] == [" 2 were dropped"]


def test_a_span_that_cannot_be_made_does_not_stop_the_message(
    tracing: Tracing, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(tracing, "_make", broken)
    for _ in range(2):
        tracing.published("t", [entry({"traceparent": SAMPLED})], waited_s=0.0, stored_ms=1)
    assert len(caplog.records) == 1


class Made(NamedTuple):
    operation: str
    entry_id: int


class RecordingTracing:
    """`Tracing` that keeps its spans in a list."""

    def __init__(self) -> None:
        self.made: list[Made] = []

    def parent_of(self, data: bytes) -> str | None:
        return "parent" if b"traced" in data else None

    def span(
        self, operation: str, topic: str, ledger_id: int, entry_id: int, parent: str, **facts: Any
    ) -> None:
        assert facts["start_ns"] <= facts["end_ns"]
        self.made.append(Made(operation, entry_id))

    def acks(self) -> list[int]:
        return [each.entry_id for each in self.made if each.operation == "ack"]


def deliveries_of(recorded: RecordingTracing, *, is_durable: bool = True) -> TracedDeliveries:
    made: Any = recorded
    return TracedDeliveries(made, "t", "s", is_durable=is_durable)


def deliver(traced: TracedDeliveries, *entry_ids: int, data: bytes = b"traced") -> None:
    entries = [StoredEntry(1, entry_id, 1, 0, None, 0, 1, 1, 1, data) for entry_id in entry_ids]
    traced.delivered("c", [Delivery(each, 0, None) for each in entries])


def acks(*entry_ids: int, remaining: int | None = None) -> list[AckRequest]:
    return [AckRequest(Position(1, entry_id), remaining) for entry_id in entry_ids]


def everything(position: Position) -> bool:
    return True


def nothing(position: Position) -> bool:
    return False


def test_an_ack_has_a_span_when_a_flush_has_stored_it() -> None:
    recorded = RecordingTracing()
    traced = deliveries_of(recorded)
    deliver(traced, 0, 1, 2)
    deliver(traced, 3, data=b"plain")
    traced.acked("c", acks(0, 3), everything, cumulative=False)
    traced.flushing()
    traced.acked("c", acks(1), everything, cumulative=False)
    assert recorded.acks() == []
    traced.put_back()  # the database was unavailable
    traced.flushing()
    traced.stored()
    assert recorded.acks() == [0, 1]
    traced.acked("c", acks(0), everything, cumulative=False)  # a repeated ack stores nothing new
    traced.flushing()
    traced.stored()
    assert recorded.acks() == [0, 1]


def test_a_cumulative_ack_ends_the_spans_of_everything_up_to_it_and_a_partial_ack_none() -> None:
    recorded = RecordingTracing()
    traced = deliveries_of(recorded, is_durable=False)
    deliver(traced, 0, 1, 2, 3)
    traced.acked("c", acks(0, remaining=2), nothing, cumulative=False)
    traced.acked("c", acks(2, remaining=2), lambda position: position.entry_id < 2, cumulative=True)
    assert recorded.acks() == [0, 1]
    traced.acked("c", acks(2), everything, cumulative=True)
    assert recorded.acks() == [0, 1, 2]


@pytest.mark.parametrize("cumulative", [False, True])
def test_an_ack_that_left_the_cursor_unchanged_has_no_span(cumulative: bool) -> None:
    recorded = RecordingTracing()
    traced = deliveries_of(recorded, is_durable=False)
    deliver(traced, 0, 1)
    traced.acked("c", acks(1), nothing, cumulative=cumulative)
    assert recorded.acks() == []


def test_a_subscription_remembers_a_bounded_number_of_traced_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(traced_deliveries, "MOST_REMEMBERED", 3)
    recorded = RecordingTracing()
    traced = deliveries_of(recorded)
    deliver(traced, 0, 1, 2, 3)  # 0 is forgotten
    traced.acked("c", acks(0, 1, 2), everything, cumulative=False)
    deliver(traced, 4, 5)  # 1 and 2 still wait for a flush, so there is room for one of 3, 4 and 5
    traced.acked("c", acks(3, 4, 5), everything, cumulative=False)
    traced.flushing()
    traced.stored()
    assert recorded.acks() == [1, 2, 5]


def test_without_the_setting_opentelemetry_is_not_imported() -> None:
    code = (
        "import sys, broker.tracing.load as load, broker.subscription.runner, broker.topics.topic\n"
        "assert load.load_tracing(is_on=False) is None\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
