"""Sentences of a diagnosis: English, and able to be said in another language."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Said", "said", "said_many"]


class Said(str):
    """A text in English that remembers its message and values, so that a page can say it in the reader's language.

    It is the English text wherever a text is needed: in `/api/v1`, in logs and in tests.
    """

    __slots__ = ("many", "message", "number", "values")

    message: str  # with `{name}` for each value
    many: str | None  # the message for several things; None if the text counts nothing
    number: int  # of the things that the text counts
    values: Mapping[str, object]  # a value may be Said too


def said(message: str, /, **values: object) -> Said:
    """Return the message with these values."""
    return _said(message, message, None, 0, values)


def said_many(one: str, many: str, /, n: int, **values: object) -> Said:
    """Return the message for one thing if `n` is 1, else the one for many. Both may write `{n}`."""
    return _said(one if n == 1 else many, one, many, n, {"n": n, **values})


def _said(english: str, message: str, many: str | None, number: int, values: Mapping[str, object]) -> Said:
    text = Said(english.format_map(values))
    text.message, text.many, text.number, text.values = message, many, number, values
    return text
