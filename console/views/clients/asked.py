"""The query strings and template contexts of the client lists."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.http import QueryDict

from console.queries.clients import ClientPage, ClientsAsked
from console.views.topics import changed_query, headings
from console.words.clients import flag_named

__all__ = ["EVERY_S", "asked_of", "form_of", "key_of", "list_of"]

# Refresh at intervals, because no event announces that a client is idle.
EVERY_S = 10

_KEY_DIGITS = 18  # Every number of 18 digits fits into a 64-bit key


def asked_of(query: QueryDict, *, orders: Collection[str], flags: Collection[str]) -> ClientsAsked:
    """Read the filters, the order and the page from a query string."""
    order, flag = query.get("sort", ""), query.get("flag", "")
    return ClientsAsked(
        topic=_text(query.get("topic", "")),
        subscription=_text(query.get("sub", "")),
        name=_text(query.get("name", "")),
        address=_text(query.get("address", "")),
        version=_text(query.get("version", "")),
        flag=flag if flag in flags else "",
        order=order if order in orders else "name",
        after=query.get("after", ""),
        after_key=key_of(query.get("key", "")),
    )


def key_of(text: str) -> int:
    """Read a client's key, or return 0 if the text is not a key."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _KEY_DIGITS else 0


def form_of(asked: ClientsAsked, flags: Collection[str]) -> dict[str, Any]:
    """Return the template context of the page around a list."""
    return {"asked": asked, "flags": [(name, flag_named(name)) for name in flags], "nav": "clients"}


def list_of(
    query: QueryDict, asked: ClientsAsked, found: ClientPage[Any], orders: Collection[str]
) -> dict[str, Any]:
    """Return the template context of a list."""
    return {
        "rows": found.rows,
        "asked": asked,
        "headings": headings(query, orders, asked.order, clear=("after", "key")),
        "first_query": changed_query(query, after="", key="", part=""),
        "next_query": changed_query(query, after=found.next_after, key=str(found.next_key), part="")
        if found.next_key
        else "",
    }


def _text(text: str) -> str:
    return text.replace("\0", "").strip()
