"""What the shop does."""

import json

from broker import publish
from django.db import transaction

from orders.models import Order


class SoldOut(Exception):
    """There is not enough of it."""


@transaction.atomic
def place_order(article: str, pieces: int) -> Order:
    """The order and its message are committed together or not at all. Raises SoldOut."""
    order = Order.objects.create(article=article, pieces=pieces)
    publish("orders", json.dumps({"order": order.pk}), key=article)
    if pieces > 100:
        raise SoldOut(article)
    return order
