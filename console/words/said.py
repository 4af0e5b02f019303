"""English strings that a page can translate for its reader."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext, ngettext

__all__ = ["Said", "said", "said_many", "spoken"]


class Said(str):
    """An English string that remembers its message and values, so that `spoken` can translate it.

    For texts that `/api/v1` needs in English, such as those of the diagnosis.
    """

    __slots__ = ("many", "message", "number", "values")

    message: str  # with `{name}` for each value
    many: str | None  # the message for several things; None if the text counts nothing
    number: int  # how many things the text counts
    values: Mapping[str, object]  # a value may be Said too


def said(message: str, /, **values: object) -> Said:
    """Return the message with these values."""
    return _said(message, message, None, 0, values)


def said_many(one: str, many: str, /, n: int, **values: object) -> Said:
    """Return the message for one thing if `n` is 1, else the one for many. Both may contain `{n}`."""
    return _said(one if n == 1 else many, one, many, n, {"n": n, **values})


def spoken(text: str) -> str:
    """Return a string in the language of the reader. A plain string, such as a name, does not change."""
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
