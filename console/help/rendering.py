"""Render a page of the documentation as HTML."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

__all__ = ["HelpPage", "render"]

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:")
_NOT_IN_ANCHOR: Final = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True, kw_only=True)
class HelpPage:
    """A rendered page."""

    title: str
    html: SafeString
    anchors: frozenset[str]


class _Renderer(RendererHTML):
    def table_open(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        return f'<div class="scroll" tabindex="0">{self.renderToken(tokens, at, options, env)}'

    def table_close(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        return f"{self.renderToken(tokens, at, options, env)}</div>"


_SCROLLED: Final = ("fence", "code_block")
_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer).enable("table")


def render(text: str, *, file: str, address_of: Callable[[str], str]) -> HelpPage:
    """Render a page of the documentation.

    `file` is the page's path in the documentation. If `address_of` returns an empty string for a link's target, the
    link becomes plain text.
    """
    tokens = _MARKDOWN.parse(text)
    title, anchors = "", set[str]()
    for token, content in pairwise(tokens):
        if token.type == "heading_open":
            words = _text_of(content)
            title = title or words
            anchor = _anchor(words, anchors)
            anchors.add(anchor)
            token.attrSet("id", anchor)
        # The content security policy forbids style attributes, so right-aligned cells get a class.
        elif token.type in ("th_open", "td_open") and "right" in str(token.attrs.pop("style", "")):
            token.attrSet("class", "number")
    for token in tokens:
        if token.type in _SCROLLED:
            token.attrSet("tabindex", "0")
        _lead(token.children or [], file=file, address_of=address_of)
    html = mark_safe(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))  # noqa: S308 - the parser escapes HTML
    return HelpPage(title=title, html=html, anchors=frozenset(anchors))


def _text_of(inline: Token) -> str:
    return "".join(each.content for each in inline.children or [])


def _anchor(words: str, taken: set[str]) -> str:
    """Return the anchor that GitHub gives a heading."""
    plain = _NOT_IN_ANCHOR.sub("", words.lower()).replace(" ", "-")
    number, anchor = 0, plain
    while anchor in taken:
        number += 1
        anchor = f"{plain}-{number}"
    return anchor


def _lead(tokens: Sequence[Token], *, file: str, address_of: Callable[[str], str]) -> None:
    opened: list[str] = []
    for token in tokens:
        match token.type:
            case "link_open":
                address = _target(str(token.attrs["href"]), file=file, address_of=address_of)
                token.tag = "a" if address else "span"
                token.attrs = {"href": address} if address else {}
                opened.append(token.tag)
            case "link_close":
                token.tag = opened.pop()
            case "image":
                token.attrSet("src", _target(str(token.attrs["src"]), file=file, address_of=address_of))


def _target(link: str, *, file: str, address_of: Callable[[str], str]) -> str:
    if _SCHEME.match(link):
        return link
    path, mark, anchor = link.partition("#")
    if not path:
        return link
    address = address_of(posixpath.normpath(posixpath.join(posixpath.dirname(file), path)))
    return f"{address}{mark}{anchor}" if address else ""
