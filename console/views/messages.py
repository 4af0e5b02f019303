"""Finding messages: the browser of a topic, and its export."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from threading import BoundedSemaphore
from typing import Any, Final
from weakref import finalize

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, QueryDict, StreamingHttpResponse
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.blocks import Source, answer
from console.messages.asked import Asked, AskedInvalid
from console.messages.browse import FoundPage, browse
from console.messages.export import Form, export
from console.messages.form import BrowseForm
from console.messages.states import subscription_names
from console.queries.topic import TopicHead, topic_head
from console.words.messages import looked_at, nothing_found, stopped

__all__ = ["export_messages", "messages"]

HIDDEN = "Only staff and members of the group “operator” can search in keys, properties and payloads."
_CONTENT_TYPES: Mapping[Form, str] = {"ndjson": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
_AT_ONCE = 64 * 1024  # bytes of a file that are gathered before they are sent
MOST_EXPORTS: Final = 2  # at a time in one process: each keeps a connection that pages need too
_PLACES = BoundedSemaphore(MOST_EXPORTS)


@require_safe
@viewer
def messages(request: HttpRequest, rights: Rights, topic: str) -> HttpResponse:
    """Show the messages that match. 400 if the query string asks for something impossible.

    How many queries it takes depends on how far the search goes, which is bounded.
    """
    head = _head(topic)
    form = BrowseForm(request.GET)
    found = _found(form, head, rights)

    def rows() -> dict[str, Any]:
        return {"head": head, "page": found, **_words(request.GET, form, found)}

    source = Source(name="messages", template="console/parts/messages/rows.html", live=(), context=rows)
    context: dict[str, Any] = {"head": head, "form": form, "nav": "topics"}
    if "part" not in request.GET:
        context["subscriptions"] = subscription_names(head.id)
    status = 200 if found is not None else 400
    return answer(request, rights, "console/pages/messages.html", [source], context, status=status)


@require_safe
@viewer
def export_messages(request: HttpRequest, rights: Rights, topic: str) -> HttpResponseBase:
    """Send what matches as a file. 400 if the query string asks for something impossible, 503 if two are being sent."""
    head = _head(topic)
    form = BrowseForm(request.GET)
    chosen: Form = "csv" if request.GET.get("format") == "csv" else "ndjson"
    asked = _asked(form, rights)
    if asked is None:
        return _refused(form)
    if not _PLACES.acquire(blocking=False):
        return _busy()
    place = _Place()
    try:
        pieces = export(head, asked, form=chosen, with_contents=rights.may_see_payloads)
    except AskedInvalid as error:
        place.close()
        form.add_error(error.field, str(error))
        return _refused(form)
    kind = _AsyncBody if isinstance(request, ASGIRequest) else _Body
    body = kind(_gathered(pieces), place)
    name = f"messages.{chosen}"
    return StreamingHttpResponse(
        body,
        content_type=_CONTENT_TYPES[chosen],
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "Cache-Control": "private, no-store",
        },
    )


def _head(topic: str) -> TopicHead:
    head = topic_head(topic)
    if head is None:
        raise Http404(f"There is no topic {topic}.")
    return head


def _asked(form: BrowseForm, rights: Rights) -> Asked | None:
    """Return what is asked for, None if the form has an error."""
    if not form.is_valid():
        return None
    if form.asked.filters.is_set and not rights.may_see_payloads:
        form.add_error(None, HIDDEN)
        return None
    return form.asked


def _found(form: BrowseForm, head: TopicHead, rights: Rights) -> FoundPage | None:
    asked = _asked(form, rights)
    if asked is None:
        return None
    try:
        return browse(head, asked)
    except AskedInvalid as error:
        form.add_error(error.field, str(error))
        return None


def _refused(form: BrowseForm) -> HttpResponse:
    lines = [str(error) for errors in form.errors.values() for error in errors]
    return HttpResponse("\n".join(lines) + "\n", status=400, content_type="text/plain; charset=utf-8")


def _busy() -> HttpResponse:
    words = f"This console is sending {MOST_EXPORTS} exports already. Try again when one of them has ended.\n"
    return HttpResponse(
        words, status=503, content_type="text/plain; charset=utf-8", headers={"Retry-After": "10"}
    )


def _words(query: QueryDict, form: BrowseForm, found: FoundPage | None) -> dict[str, Any]:
    if found is None:
        return {}
    looked, is_filtered = found.looked, form.asked.filters.is_set
    return {
        "looked_words": looked_at(
            entries=looked.entries,
            stored=found.stored,
            matched=looked.matched,
            is_filtered=is_filtered,
            is_narrowed=found.is_narrowed,
            unjudged={trouble.value: number for trouble, number in looked.unjudged.items()},
            gone=looked.gone,
        ),
        "stopped_words": stopped(
            looked.stopped_by, rows=form.asked.limit, opened=looked.opened, read_bytes=looked.bytes
        ),
        "nothing_words": nothing_found(
            looked.stopped_by,
            start=form.asked.start,
            gone=looked.gone,
            is_filtered=is_filtered,
            is_continued=form.asked.after is not None,
        ),
        "next_query": ""
        if looked.stopped_by in ("end", "cursor")
        else _changed(query, after=str(looked.mark or "")),
        "first_query": _changed(query, after="") if form.asked.after else "",
    }


def _changed(query: QueryDict, *, after: str) -> str:
    """Return the query string of another page of the same search."""
    changed = query.copy()
    for name in ("after", "part"):
        changed.pop(name, None)
    if after:
        changed["after"] = after
    return changed.urlencode()


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Join small pieces, because each one that is sent costs a switch of threads. An empty one sends what there is."""
    held: list[bytes] = []
    size_bytes = 0
    for piece in pieces:
        held.append(piece)
        size_bytes += len(piece)
        if size_bytes >= _AT_ONCE or not piece:
            yield b"".join(held)
            held, size_bytes = [], 0
    yield b"".join(held)


class _Place:
    """A place among the exports of this process, free again when it is closed or nothing refers to it."""

    def __init__(self) -> None:
        self.close = finalize(self, _PLACES.release)
        self.close.atexit = False


class _Body:
    """A file while it is sent."""

    def __init__(self, pieces: Iterator[bytes], place: _Place) -> None:
        self._pieces = pieces
        self._place = place
        self.close = place.close  # Django calls it after the last piece, or when the browser has left

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces


class _AsyncBody(_Body):
    """A file while it is sent by an event loop. Django would collect an ordinary iterator in memory there."""

    __iter__ = None  # type: ignore[assignment]  # Django takes what can be iterated in both ways for an ordinary one

    async def __aiter__(self) -> AsyncIterator[bytes]:
        # In the request's thread, which has its database connection.
        following = sync_to_async(lambda: next(self._pieces, None))
        while (piece := await following()) is not None:
            yield piece
