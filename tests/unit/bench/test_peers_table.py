"""The table that compares Vela with other servers."""

from __future__ import annotations

from typing import Any

from bench.figures import Figure
from bench.peers.table import answer_key, table


def _answer(unit: str, **runs: tuple[float, ...]) -> dict[str, Any]:
    figures = [Figure(name=name, unit=unit, runs=values).as_json() for name, values in runs.items()]
    return {"quick": False, "facts": {"fsync": "on"}, "figures": figures}


def _times(text: str, work: str, server: str) -> str:
    (row,) = [line for line in text.splitlines() if line.startswith(f"| {work} | {server} |")]
    return row.split("|")[5].strip()


def test_a_comparison_of_rates_is_velas_over_the_other_servers() -> None:
    answers = {
        answer_key("vela", "drain-1k"): _answer("msg/s", per_s=(300.0, 100.0, 200.0)),
        answer_key("pulsar", "drain-1k"): _answer("msg/s", per_s=(400.0,)),
    }
    text = table(answers, ["vela", "pulsar"])
    assert _times(text, "drain, 1 KB", "pulsar") == "0.50 ×"
    assert _times(text, "drain, 1 KB", "vela") == ""


def test_a_comparison_of_times_is_the_other_servers_over_velas() -> None:
    answers = {
        answer_key(server, "latency"): _answer("ms", p50_ms=(p50,), p99_ms=(9.0,), p999_ms=(9.0,))
        for server, p50 in (("vela", 2.0), ("nats", 3.0))
    }
    assert (
        _times(table(answers, ["vela", "nats"]), "end to end, 1 KB at 1,000 msg/s, p50", "nats") == "1.50 ×"
    )


def test_a_server_is_shown_although_vela_was_not_measured() -> None:
    answers = {answer_key("nats", "drain-1k"): _answer("msg/s", per_s=(1.0,))}
    text = table(answers, ["vela", "nats"])
    assert _times(text, "drain, 1 KB", "nats") == ""
    assert "- nats: fsync on" in text
