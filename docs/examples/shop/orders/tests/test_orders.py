"""The shop's own tests, with Vela's fixtures."""

import json
import time
import urllib.request

import pytest
from broker import publish
from broker.models import Outbox

from orders.models import Invoice, Order
from orders.services import SoldOut, place_order


def test_an_order_is_published(published) -> None:
    order = place_order("tea", 3)
    (message,) = published("orders")
    assert (message.json(), message.key) == ({"order": order.pk}, "tea")


def test_a_sold_out_order_is_not_published(published) -> None:
    with pytest.raises(SoldOut):
        place_order("tea", 101)
    assert published() == []


def test_the_invoice_is_written_once(handle_published) -> None:
    order = place_order("tea", 3)
    publish("orders", json.dumps({"order": order.pk}))  # the message comes a second time
    assert handle_published() == 2
    assert Invoice.objects.get().order == order


@pytest.mark.django_db(transaction=True)
def test_a_real_broker_takes_it_out_of_the_outbox(vela_broker) -> None:
    place_order("tea", 3)
    until = time.monotonic() + 20
    while Outbox.objects.exists():
        assert time.monotonic() < until, "the message stayed in the outbox"
        time.sleep(0.02)
    with urllib.request.urlopen(f"{vela_broker.http_url}/metrics") as page:  # noqa: S310
        assert "vela_outbox_moved_total 1" in page.read().decode()
    assert Order.objects.count() == 1
