"""Read the values of form fields. The `read_` functions raise ValidationError for unreadable or ambiguous text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from broker.acts.requests import ActRefused, full_name
from console.words.numerals import read_time_ms
from vela.wire.errors import InvalidMessageId
from vela.wire.message_id import MessageId
from vela.wire.topic_name import TopicName

__all__ = ["MOST_MESSAGES", "filled_in", "read_message_id", "read_time", "read_topic_name"]

MOST_MESSAGES: Final = 10**12


def read_message_id(text: str, *, topic: str = "", is_partitioned: bool = False) -> str:
    """Parse a message id and return it as `ledger:entry[:partition[:batch index]]`.

    If `text` has only three numbers, the third is the partition on a partitioned topic, and the batch index on other
    topics. If `topic` is the partition with this number, the id is ambiguous, and the function raises ValidationError.
    """
    try:
        found = MessageId.parse(text.strip())
    except InvalidMessageId:
        raise ValidationError(_("Write the message id as ledger:entry, for example 12:4071.")) from None
    if is_partitioned or found.partition < 0 or found.batch_index >= 0:
        return str(found)
    in_batch = replace(found, partition=-1, batch_index=found.partition)
    if topic and TopicName.parse(topic).partition == found.partition:
        raise ValidationError(
            _(
                "{number} may be the partition or the place in a batch: write {entry} for the entry, or {message} for"
                " the message in the batch."
            ).format(number=found.partition, entry=replace(found, partition=-1), message=in_batch)
        )
    return str(in_batch)


def read_topic_name(text: str) -> str:
    """Return the full name of a topic, or "" for an empty field."""
    try:
        return full_name("redrive", text) if text else ""
    except ActRefused as refused:
        raise ValidationError(refused.text) from None


def read_time(text: str) -> int | None:
    """Return Unix milliseconds, or None for an empty field."""
    try:
        return read_time_ms(text.strip()) if text.strip() else None
    except ValueError as error:
        raise ValidationError(str(error)) from None


def filled_in(cleaned: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out empty values, so that the defaults apply."""
    return {name: value for name, value in cleaned.items() if value not in ("", None)}
