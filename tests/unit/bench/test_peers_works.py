"""The workloads that each server of the comparison gets."""

from __future__ import annotations

from bench.peers.server import Server
from bench.peers.works import WORKS, suits


def _server(
    *, is_job_queue: bool = False, has_batches: bool = False, websocket_port: int | None = None
) -> Server:
    return Server(
        url="",
        protocol="",
        facts={},
        cpu_s=dict,
        is_job_queue=is_job_queue,
        has_batches=has_batches,
        websocket_port=websocket_port,
    )


def _works(server: Server) -> set[str]:
    return {key for key, work in WORKS.items() if suits(work, server)}


def test_a_job_queue_is_given_only_the_workload_of_jobs() -> None:
    assert _works(_server(is_job_queue=True, has_batches=True, websocket_port=1)) == {"jobs"}


def test_a_server_without_batches_or_websocket_is_given_the_other_workloads() -> None:
    plain = _works(_server())
    assert {"publish-1k-single", "drain-1k", "jobs", "latency"} <= plain
    assert (
        _works(_server(has_batches=True)) - plain
        == {key for key in WORKS if key.startswith("publish-1")} - plain
    )
    assert all(key.startswith("websocket") for key in _works(_server(websocket_port=1)) - plain)


def test_a_server_with_every_feature_is_given_every_workload() -> None:
    assert _works(_server(has_batches=True, websocket_port=1)) == set(WORKS)
