"""The namespace that a broker creates when it starts for the first time."""

from __future__ import annotations

from tests.support.broker_harness import one_row, rows, running


async def test_public_default_is_created_at_the_first_start_only(broker_url: str) -> None:
    retention = "SELECT t.name, n.name, n.policies->'retention_bytes' FROM vela_namespace n, vela_tenant t"
    async with running(broker_url, default_retention_bytes=77) as first:
        assert one_row(first.database_url, retention) == ("public", "default", 77)
        rows(
            first.database_url, "UPDATE vela_namespace SET policies = '{\"retention_bytes\": 5}' RETURNING id"
        )
    async with running(broker_url, default_retention_bytes=77) as again:
        assert one_row(again.database_url, retention) == ("public", "default", 5)
