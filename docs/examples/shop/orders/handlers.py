"""Handlers, which `manage.py runhandlers` calls."""

from broker.handlers import Message, handler

from orders.models import Invoice


@handler(
    "orders", subscription="invoices", from_earliest=True, atomic=True, retry_delay_s=1, max_redeliveries=5
)
def write_invoice(message: Message) -> None:
    """Write the order's invoice once. The message may come more than once, so this calls get_or_create."""
    Invoice.objects.get_or_create(order_id=message.json()["order"])
