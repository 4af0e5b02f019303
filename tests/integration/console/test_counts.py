"""A count above a table and the table's rows come from the same place."""

from __future__ import annotations

from django.test import Client

from broker.models import ConsumerSession, PendingAck, ProducerSession
from tests.integration.console.pages import text_of
from tests.integration.console.shop import Shop

ORDERS = "/t/persistent/public/default/orders"
BILLING = f"{ORDERS}/s/billing"


def test_counts_agree_with_the_tables_below_them(operator: Client, shop: Shop) -> None:
    for model in (ConsumerSession, PendingAck, ProducerSession):
        model.objects.all().delete()  # as the sweep does for a broker that is gone
    words = text_of(operator.get(BILLING))
    assert "0 consumers" in words
    assert "No consumer is connected" in words
    assert "In flight 0" in words
    assert "Nothing is in flight" in words
    words = text_of(operator.get(f"{ORDERS}?tab=producers"))
    assert "Producers 0" in words
    assert "No producer is connected" in words
    body = operator.get("/api/v1/stats").json()
    assert (body["consumers"], body["producers"], body["unacked_messages"]) == (0, 0, 0)


def test_deliveries_that_are_not_listed_yet_are_not_denied(operator: Client, shop: Shop) -> None:
    PendingAck.objects.all().delete()
    words = text_of(operator.get(f"{BILLING}?part=pending"))
    assert "1 message in flight. The broker has not listed the deliveries yet." in words
