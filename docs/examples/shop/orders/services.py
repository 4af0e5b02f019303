"""The shop's operations."""

import json

from broker import publish
from django.db import transaction

from orders.models import Order


class SoldOut(Exception):
    """The shop has fewer pieces than the customer wants."""


@transaction.atomic
def place_order(article: str, pieces: int) -> Order:
    """Place an order and publish its message: both are committed, or neither is. Raises SoldOut."""
    order = Order.objects.create(article=article, pieces=pieces)
    publish("orders", json.dumps({"order": order.pk}), key=article)
    if pieces > 100:
        raise SoldOut(article)
    return order
