"""Numbers with nouns, such as "3 consumers"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from django.utils.translation import ngettext

from console.words.numerals import count

__all__ = ["counted"]

_NOUNS: Final[Mapping[str, Callable[[int], str]]] = {
    "batch": lambda n: ngettext("{number} batch", "{number} batches", n),
    "consumer": lambda n: ngettext("{number} consumer", "{number} consumers", n),
    "entry": lambda n: ngettext("{number} entry", "{number} entries", n),
    "message": lambda n: ngettext("{number} message", "{number} messages", n),
    "partition": lambda n: ngettext("{number} partition", "{number} partitions", n),
    "statement": lambda n: ngettext("{number} statement", "{number} statements", n),
    "subscription": lambda n: ngettext("{number} subscription", "{number} subscriptions", n),
    "time": lambda n: ngettext("{number} time", "{number} times", n),
}


def counted(number: int | None, noun: str) -> str:
    """Format a number with its noun in the reader's language. If the number is None, use a dash."""
    return _NOUNS[noun](0 if number is None else number).format(number=count(number))
