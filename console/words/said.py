"""English strings that a page can translate later."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext, ngettext

__all__ = ["Said", "said", "said_many", "spoken"]


class Said(str):
    """An English string that `spoken` can translate."""

    __slots__ = ("many", "message", "number", "values")

    message: str
    many: str | None  # None if the text has no plural
    number: int
    values: Mapping[str, object]


def said(message: str, /, **values: object) -> Said:
    """Return `message` with its placeholders filled from `values`."""
    return _said(message, message, None, 0, values)


def said_many(one: str, many: str, /, n: int, **values: object) -> Said:
    """Return `one` if `n` is 1, else `many`. Both may contain `{n}`."""
    return _said(one if n == 1 else many, one, many, n, {"n": n, **values})


def spoken(text: str) -> str:
    """Translate a `Said` string into the reader's language. Return any other string unchanged."""
    if not isinstance(text, Said):
        return text
    translated = (
        gettext(text.message) if text.many is None else ngettext(text.message, text.many, text.number)
    )
    return translated.format_map(
        {name: spoken(value) if isinstance(value, str) else value for name, value in text.values.items()}
    )


def _said(english: str, message: str, many: str | None, number: int, values: Mapping[str, object]) -> Said:
    text = Said(english.format_map(values))
    text.message, text.many, text.number, text.values = message, many, number, values
    return text
