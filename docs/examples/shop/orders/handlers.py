"""Called by `manage.py runhandlers`."""

from broker.handlers import Message, handler

from orders.models import Invoice


@handler(
    "orders", subscription="invoices", from_earliest=True, atomic=True, retry_delay_s=1, max_redeliveries=5
)
def write_invoice(message: Message) -> None:
    """A message may come more than once: get_or_create bears it."""
    Invoice.objects.get_or_create(order_id=message.json()["order"])
