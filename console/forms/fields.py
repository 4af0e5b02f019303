"""Read the values of form fields. The `read_` functions raise ValidationError for a value that they cannot read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from broker.acts.requests import ActRefused, full_name
from console.words.numerals import read_time_ms
from vela.wire.errors import InvalidMessageId
from vela.wire.message_id import MessageId

__all__ = ["MOST_MESSAGES", "filled_in", "read_message_id", "read_time", "read_topic_name"]

MOST_MESSAGES: Final = 10**12


def read_message_id(text: str) -> str:
    """Return the message id `ledger:entry[:partition[:batch index]]` as Vela writes it."""
    try:
        return str(MessageId.parse(text.strip()))
    except InvalidMessageId:
        raise ValidationError(_("Write the message id as ledger:entry, for example 12:4071.")) from None


def read_topic_name(text: str) -> str:
    """Return the full name of a topic, or "" for an empty field."""
    try:
        return full_name("redrive", text) if text else ""
    except ActRefused as refused:
        raise ValidationError(refused.text) from None


def read_time(text: str) -> int | None:
    """Return milliseconds since 1970, or None for an empty field."""
    try:
        return read_time_ms(text.strip()) if text.strip() else None
    except ValueError as error:
        raise ValidationError(str(error)) from None


def filled_in(cleaned: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out empty values, so that the act's defaults apply."""
    return {name: value for name, value in cleaned.items() if value not in ("", None)}
