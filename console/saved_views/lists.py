"""The lists whose filters can be saved as views.

A saved view stores only an address. The page at this address checks the rights of each user who opens it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlencode

from django.http import QueryDict
from django.urls import Resolver404, ResolverMatch, resolve, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console.access.guards import place_in
from console.access.roles import namespace_of
from console.addresses import short_name

__all__ = ["EVERYTHING_QUERY", "MOST_PATH", "MOST_QUERY", "SavedList", "filters_in", "list_at", "list_of"]

MOST_PATH: Final = 1500  # In characters; PostgreSQL limits the size of an indexed value
MOST_QUERY: Final = 4000
EVERYTHING_QUERY: Final = "view=all"  # Shows the list without filters instead of the default view


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    word: str  # English text; {topic} stands for the topic's name
    places: tuple[str, ...]  # Parameters that say where a page begins


_KINDS: Final[Mapping[str, _Kind]] = {
    "console:topics": _Kind(word=gettext_noop("Topics"), places=("after", "value")),
    "console:consumers": _Kind(word=gettext_noop("Consumers"), places=("after", "key")),
    "console:producers": _Kind(word=gettext_noop("Producers"), places=("after", "key")),
    "console:dead_letters": _Kind(word=gettext_noop("Dead letters"), places=("after", "value")),
    "console:dead_letter_topic": _Kind(word=gettext_noop("Dead letters in {topic}"), places=()),
    "console:messages": _Kind(word=gettext_noop("Messages of {topic}"), places=("after",)),
    "console:acts": _Kind(word=gettext_noop("Acts"), places=("before",)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedList:
    """A list whose filters can be saved."""

    path: str
    word: str  # Translated name
    place: str  # Topic of the list; "" means no topic
    pages: tuple[str, ...]

    @property
    def namespace(self) -> str:
        """The namespace of the list. Empty if the list covers all namespaces."""
        return namespace_of(self.place) if self.place else ""


def list_of(match: ResolverMatch) -> SavedList | None:
    """Return the list at a resolved address, if any."""
    kind = _KINDS.get(match.view_name)
    if kind is None:
        return None
    topic = place_in(match.kwargs)
    return SavedList(
        path=reverse(match.view_name, kwargs=match.kwargs),
        word=_(kind.word).format(topic=short_name(topic) if topic else ""),
        place=topic,
        pages=kind.places,
    )


def list_at(path: str) -> SavedList | None:
    """Return the list with this path, if any."""
    if len(path) > MOST_PATH or not path.startswith("/"):
        return None
    try:
        return list_of(resolve(unquote(path)))
    except Resolver404:
        return None


def filters_in(saved_list: SavedList, query: QueryDict) -> str:
    """Return the filters and sort order from a query string, with the parameters sorted by name.

    A repeated parameter keeps the order of its values.
    """
    left_out = {"part", "view", *saved_list.pages}
    given = ((name, value) for name, values in query.lists() for value in values)
    kept = [(name, value) for name, value in given if value and name not in left_out]
    return urlencode(sorted(kept, key=lambda each: each[0]))
