"""Message ids as pages write them: `ledger:entry`, and `ledger:entry:index` for one message of a batch."""

from __future__ import annotations

from vela.wire.errors import InvalidMessageId
from vela.wire.message_id import MessageId

__all__ = ["page_id"]


def page_id(text: object) -> str:
    """Return an id of an act's parameters as pages write it.

    An id that names a partition stays as it is, and so does any other text.
    """
    try:
        found = MessageId.parse(str(text))
    except InvalidMessageId:
        return str(text)
    if found.partition >= 0 or found.batch_index < 0:
        return str(found)
    return f"{found.ledger_id}:{found.entry_id}:{found.batch_index}"
