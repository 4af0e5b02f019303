"""The console's main pages: their order in the menu, and the keys that lead to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["MENU", "MenuPage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuPage:
    """One entry of the menu."""

    nav: str  # the `nav` of the pages that belong to it
    word: str
    address: str  # the name of its URL
    key: str  # pressed after `g`


MENU: Final = (  # what an operator needs most often comes first
    MenuPage(nav="overview", word="Overview", address="console:home", key="o"),
    MenuPage(nav="topics", word="Topics", address="console:topics", key="t"),
    MenuPage(nav="clients", word="Clients", address="console:consumers", key="c"),
    MenuPage(nav="dead_letters", word="Dead letters", address="console:dead_letters", key="d"),
    MenuPage(nav="alerts", word="Alerts", address="console:alerts", key="l"),
    MenuPage(nav="acts", word="Acts", address="console:acts", key="a"),
    MenuPage(nav="bookmarks", word="Bookmarks", address="console:bookmarks", key="b"),
    MenuPage(nav="namespaces", word="Namespaces", address="console:namespaces", key="n"),
    MenuPage(nav="pipeline", word="Pipeline", address="console:pipeline", key="p"),
)
