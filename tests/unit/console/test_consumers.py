"""The console's list of consumers."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from django.template.loader import render_to_string

from console.queries.clients import ConsumerRow

ROW = ConsumerRow(
    key=1,
    topic_name="persistent://public/default/t",
    partition=-1,
    subscription_id=1,
    subscription_name="s",
    name="slow",
    subscription_type="Shared",
    address="127.0.0.1:5000",
    client_version="x",
    face="binary",
    protocol_version=21,
    priority=0,
    connected_ms=1,
    permits=0,
    unacked_messages=10,
    blocked=False,
    writable=True,
    messages_out=10,
    bytes_out=10,
    messages_acked=0,
    messages_redelivered=0,
    message_rate_out=0.0,
    message_rate_acked=0.0,
    message_rate_redelivered=0.0,
    last_flow_ms=1,
    last_delivery_ms=1,
    last_ack_ms=0,
    oldest_delivered_ms=1,
    updated_ms=1,
    properties={},
    flags=[],
)


def shown(row: ConsumerRow) -> str:
    """Render the list of consumers with this one in it."""
    context = {"rows": [row], "head": SimpleNamespace(name="s"), "now_ms": 1000}
    return render_to_string("console/parts/subscription/consumers.html", context)


@pytest.mark.row("S2.3")
def test_a_consumer_that_is_slow_to_ask_is_shown_to_ask_for_none() -> None:
    assert "asks for none" in shown(ROW)
    assert "blocked" not in shown(ROW)
    assert "asks for none" not in shown(replace(ROW, permits=1))
