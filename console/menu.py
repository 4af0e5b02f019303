"""The console's main pages, in the order of the menu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.utils.translation import gettext_lazy

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = ["MENU", "MenuPage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuPage:
    """One entry of the menu."""

    nav: str
    word: StrOrPromise
    address: str
    key: str  # The key to press after `g`


MENU: Final = (
    MenuPage(nav="overview", word=gettext_lazy("Overview"), address="console:home", key="o"),
    MenuPage(nav="topics", word=gettext_lazy("Topics"), address="console:topics", key="t"),
    MenuPage(nav="clients", word=gettext_lazy("Clients"), address="console:consumers", key="c"),
    MenuPage(nav="dead_letters", word=gettext_lazy("Dead letters"), address="console:dead_letters", key="d"),
    MenuPage(nav="alerts", word=gettext_lazy("Alerts"), address="console:alerts", key="l"),
    MenuPage(nav="acts", word=gettext_lazy("Acts"), address="console:acts", key="a"),
    MenuPage(nav="bookmarks", word=gettext_lazy("Bookmarks"), address="console:bookmarks", key="b"),
    MenuPage(nav="namespaces", word=gettext_lazy("Namespaces"), address="console:namespaces", key="n"),
    MenuPage(nav="pipeline", word=gettext_lazy("Pipeline"), address="console:pipeline", key="p"),
)
