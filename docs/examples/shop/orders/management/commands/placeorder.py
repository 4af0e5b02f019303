"""`manage.py placeorder tea 3`"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from orders.services import SoldOut, place_order


class Command(BaseCommand):
    """Place an order. A worker of `runhandlers` writes its invoice."""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("article")
        parser.add_argument("pieces", type=int)

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            order = place_order(options["article"], options["pieces"])
        except SoldOut as error:
            raise CommandError(f"sold out: {error}") from None
        self.stdout.write(f"order {order.pk}")
