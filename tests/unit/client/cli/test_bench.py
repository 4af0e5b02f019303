"""`vela bench`: its figures, and what becomes of its topic."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.client.cli.conftest import Vela
from tests.unit.client.cli.fake_console import FakeConsole, problem
from vela.cli.benchmark import Latency, Throughput, percentile


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([5.0], 50, 5.0), ([5.0], 99, 5.0), ([1.0, 2.0], 50, 1.0), ([1.0, 2.0], 51, 2.0),
     ([float(n) for n in range(1, 101)], 99, 99.0), ([float(n) for n in range(1, 101)], 100, 100.0)],
)  # fmt: skip
def test_percentiles_are_by_nearest_rank(values: list[float], percent: float, expected: float) -> None:
    assert percentile(values, percent) == expected


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make `vela bench` print fixed figures without a broker, and return the topics that it measured."""
    topics: list[str] = []

    def run(topic: str, work: Callable[[Any], Any]) -> None:
        topics.append(topic)
        coroutine = work(None)
        with pytest.raises(StopIteration):
            coroutine.send(None)

    async def throughput(*_: Any) -> Throughput:
        return Throughput(published_per_s=2_000.4, consumed_per_s=1_000.0)

    async def latency(*_: Any) -> Latency:
        return Latency(messages=3, publish_ms=[1.0, 2.0, 3.0], end_to_end_ms=[2.0, 3.0, 4.5])

    monkeypatch.setattr("vela.cli.commands.bench.run_with_client", run)
    monkeypatch.setattr("vela.cli.commands.bench.measure_throughput", throughput)
    monkeypatch.setattr("vela.cli.commands.bench.measure_latency", latency)
    return topics


def test_figures_are_printed_as_a_table_or_as_json(
    vela: Vela, console: FakeConsole, measured: list[str]
) -> None:
    shown = [line.split() for line in vela("bench --size 1000").stdout.splitlines()]
    assert shown[1] == ["published", "2,000/s", "2.0", "MB/s"]
    assert shown[4] == ["at", "500/s", "p50", "p95", "p99", "max"]
    assert shown[6] == ["send", "to", "consumer", "3.00", "ms", "4.50", "ms", "4.50", "ms", "4.50", "ms"]
    document = json.loads(vela("bench --json").stdout)
    assert (document["published_per_s"], document["latency"]["end_to_end_ms"]["p99"]) == (2000, 4.5)
    assert json.loads(vela("bench --json --seconds 0").stdout)["latency"] is None


def test_the_topic_of_a_benchmark_is_deleted(vela: Vela, console: FakeConsole, measured: list[str]) -> None:
    assert vela("bench --namespace shop/eu").exit_code == 0
    assert measured[0].startswith("persistent://shop/eu/bench-")
    assert console.paths("POST") == ["acts", "acts/7/apply"]
    assert (console.asked[0].body["kind"], console.asked[0].body["topic"]) == ("delete_topic", measured[0])


def test_a_topic_that_could_not_be_deleted_is_named(
    vela: Vela, console: FakeConsole, measured: list[str]
) -> None:
    done = vela("bench --keep")
    assert (done.exit_code, console.asked) == (0, [])
    assert f"the topic is {measured[0].rpartition('/')[2]}" in done.stderr
    console.answers["POST acts"] = problem(403, "AuthorizationError", "only staff")
    done = vela("bench")
    assert done.exit_code == 0
    assert (
        f"the topic {measured[1].rpartition('/')[2]} was not deleted: user 'ada' may not do this"
        in done.stderr
    )


def test_an_invalid_namespace_is_a_usage_error(vela: Vela, console: FakeConsole, measured: list[str]) -> None:
    done = vela("bench --namespace shop")
    assert (done.exit_code, "write it as tenant/namespace" in done.stderr) == (2, True)
