"""Pages that are made of blocks. A browser can refresh each block separately.

A block's ETag ignores the text of `<time>` elements.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers
from django.utils.encoding import escape_uri_path
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from console.access import Rights
from console.marks import visible
from console.menu import MENU
from console.notices import notices_of, own_notices
from console.people.languages import LANGUAGE_NAMES
from console.queries.chrome import chrome
from console.words.numerals import zone_name

__all__ = [
    "KEYS_PER_STREAM",
    "UNFOLLOWED_EVERY_S",
    "Block",
    "Source",
    "answer",
    "frame",
    "page",
    "surroundings",
]

THEMES = ("auto", "light", "dark")
THEME_COOKIE = "vela_theme"
STREAM = "/live"
_SOURCE_LANGUAGE = "en"
KEYS_PER_STREAM: Final = 200
TOGETHER_MS = 20  # Several events within this time cause one request
# If the event stream does not send all of a block's events, the page also polls the block at this interval.
UNFOLLOWED_EVERY_S: Final = 10

_TIME_TEXT = re.compile(r"(<time\b[^>]*\bdatetime=\"([^\"]*)\"[^>]*>)[^<]*(?=</time>)")
_READ_TIME = re.compile(r"<time\b[^>]*\bclass=\"ago read\"[^>]*>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A block before rendering."""

    name: str  # Value of the `part` query parameter
    template: str
    live: tuple[str, ...]  # Keys of the events that refresh the block, such as "topic:5"
    context: Callable[[], Mapping[str, Any]]
    every_s: int = 0  # The page also polls the block at this interval; 0 means never


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A rendered block."""

    name: str
    html: SafeString
    etag: str  # With the quotation marks that HTTP requires
    address: str
    live: tuple[str, ...]
    every_s: int

    @property
    def trigger(self) -> str:
        """The value of htmx's `hx-trigger` attribute. The page's scripts send the `refresh` event."""
        events = [f"sse:{key} delay:{TOGETHER_MS}ms" for key in self.live]
        polls = [f"every {self.every_s}s"] if self.every_s else []
        return ", ".join([*events, *polls, "refresh"])


def _render(request: HttpRequest, rights: Rights, source: Source) -> Block:
    now_ms = int(time.time() * 1000)
    html = visible(
        render_to_string(source.template, {**source.context(), "rights": rights, "now_ms": now_ms}, request)
    )
    version = _TIME_TEXT.sub(r"\1", _READ_TIME.sub("", html))
    digest = hashlib.sha256(
        f"{source.name}\n{rights.role}\n{zone_name()}\n{get_language()}\n{version}".encode()
    ).hexdigest()[:20]
    query = request.GET.copy()
    query["part"] = source.name
    return Block(
        name=source.name,
        html=html,
        etag=f'"{digest}"',
        address=f"{escape_uri_path(request.path)}?{query.urlencode()}",
        live=source.live,
        every_s=source.every_s,
    )


def answer(
    request: HttpRequest,
    rights: Rights,
    template: str,
    sources: Sequence[Source],
    context: Mapping[str, Any],
    *,
    status: int = 200,
) -> HttpResponse:
    """Return the page, or only the blocks that the `part` parameter names. Raises Http404 for an unknown block."""
    wanted = set(request.GET.getlist("part"))
    if not wanted:
        blocks = {source.name: _render(request, rights, source) for source in _followed(sources)}
        stream = _stream(blocks.values())
        return page(request, rights, template, {**context, "blocks": blocks, "stream": stream}, status=status)
    for name in sorted(wanted.difference(source.name for source in sources)):
        raise Http404(_("This page has no block named {wanted!r}.").format(wanted=name))
    found = [_render(request, rights, source) for source in sources if source.name in wanted]
    return _part(request, found[0]) if len(found) == 1 else _parts(request, found)


def _followed(sources: Sequence[Source]) -> Sequence[Source]:
    keys = sorted({key for source in sources for key in source.live})
    if len(keys) <= KEYS_PER_STREAM:
        return sources
    followed = frozenset(keys[:KEYS_PER_STREAM])
    return [
        source
        if followed.issuperset(source.live)
        else replace(
            source,
            live=tuple(key for key in source.live if key in followed),
            every_s=source.every_s or UNFOLLOWED_EVERY_S,
        )
        for source in sources
    ]


def _stream(blocks: Iterable[Block]) -> str:
    language = get_language() or _SOURCE_LANGUAGE
    query = [f"key={key}" for key in sorted({key for block in blocks for key in block.live})]
    if language != _SOURCE_LANGUAGE:
        query.append(f"language={language}")
    return f"{STREAM}?{'&'.join(query)}" if query else STREAM


def _part(request: HttpRequest, block: Block) -> HttpResponse:
    response = HttpResponse(status=304) if block.etag in _etags_in(request) else HttpResponse(block.html)
    response["ETag"] = block.etag
    response["Cache-Control"] = "private, no-cache"
    patch_vary_headers(response, ["Cookie", "HX-Request"])
    return response


def _parts(request: HttpRequest, blocks: Sequence[Block]) -> HttpResponse:
    known = _etags_in(request)
    changed = [block for block in blocks if block.etag not in known]
    if changed:
        response = HttpResponse(render_to_string("console/blocks.html", {"blocks": changed}))
    else:
        response = HttpResponse(status=304)
    response["Cache-Control"] = "private, no-store"
    return response


def _etags_in(request: HttpRequest) -> set[str]:
    return {etag.strip() for etag in request.headers.get("If-None-Match", "").split(",")}


def page(
    request: HttpRequest, rights: Rights, template: str, context: Mapping[str, Any], *, status: int = 200
) -> HttpResponse:
    """Render a whole page, with the menu and notices around its content."""
    html = render_to_string(template, {**frame(request), **surroundings(rights), **context}, request)
    response = HttpResponse(visible(html), status=status)
    response["Cache-Control"] = "private, no-store"
    patch_vary_headers(response, ["Cookie", "HX-Request"])
    return response


def surroundings(rights: Rights) -> dict[str, Any]:
    """Return the template context of the menu and the notices around a page's content."""
    state = chrome()
    return {
        "rights": rights,
        "menu": MENU,
        "notices": notices_of(state, state.waiting_in(rights.scope)),
        "own_notices": own_notices(),
        "stream": _stream(()),
    }


def frame(request: HttpRequest) -> dict[str, Any]:
    """Return the part of every page's template context that needs no database query."""
    theme = request.COOKIES.get(THEME_COOKIE, "auto")
    return {
        "theme": theme if theme in THEMES else "auto",
        "themes": THEMES,
        "languages": LANGUAGE_NAMES,
        "now_ms": int(time.time() * 1000),
    }
