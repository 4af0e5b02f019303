"""Stream exports as NDJSON or CSV.

Each export occupies a database connection, so a process sends only a few exports at a time.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from threading import BoundedSemaphore
from typing import Any, Final, Literal
from weakref import finalize

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

__all__ = [
    "CONTENT_TYPES",
    "MOST_EXPORTS",
    "TOO_MANY",
    "TRY_AGAIN",
    "FilePlace",
    "Form",
    "line",
    "sent",
    "take_place",
]

Form = Literal["ndjson", "csv"]

MOST_EXPORTS: Final = 2
TOO_MANY: Final = (
    f"This console is sending {MOST_EXPORTS} exports already. Try again when one of them has ended."
)
TRY_AGAIN: Final = {"Retry-After": "10"}
CONTENT_TYPES: Final[Mapping[Form, str]] = {
    "ndjson": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
}

_PLACES: Final = BoundedSemaphore(MOST_EXPORTS)
_AT_ONCE: Final = 64 * 1024  # Bytes to gather before sending
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def line(document: Mapping[str, Any], form: Form) -> bytes:
    """Return one line of a file.

    In CSV, text that a spreadsheet would run as a formula gets a leading apostrophe.
    Lone surrogates are written as escapes, because UTF-8 cannot encode them.
    """
    if form == "ndjson":
        return json.dumps(document, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([_cell(value) for value in document.values()])
    return out.getvalue().encode(errors="backslashreplace")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        value = json.dumps(value, ensure_ascii=False) if value else ""
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text


class FilePlace:
    """A place for one export. Calling `close` or dropping the last reference frees the place."""

    def __init__(self) -> None:
        self.close = finalize(self, _PLACES.release)
        self.close.atexit = False


def take_place() -> FilePlace | None:
    """Reserve a place for an export, or return None if all places are taken."""
    return FilePlace() if _PLACES.acquire(blocking=False) else None


def sent(
    request: HttpRequest, pieces: Iterator[bytes], place: FilePlace, *, name: str, form: Form
) -> StreamingHttpResponse:
    """Return a response that sends the pieces as a file. Closing the response frees the place.

    An empty piece flushes the gathered bytes, so that the server can notice a disconnected browser.
    """
    kind = _AsyncBody if isinstance(request, ASGIRequest) else _Body
    return StreamingHttpResponse(
        kind(_gathered(pieces), place),
        content_type=CONTENT_TYPES[form],
        headers={
            "Content-Disposition": f'attachment; filename="{name}.{form}"',
            "Cache-Control": "private, no-store",
        },
    )


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Join small pieces, because on an event loop each piece costs a thread switch."""
    kept: list[bytes] = []
    size_bytes = 0
    for piece in pieces:
        kept.append(piece)
        size_bytes += len(piece)
        if size_bytes >= _AT_ONCE or not piece:
            yield b"".join(kept)
            kept, size_bytes = [], 0
    yield b"".join(kept)


class _Body:
    def __init__(self, pieces: Iterator[bytes], place: FilePlace) -> None:
        self._pieces = pieces
        self._place = place
        self.close = place.close  # Django calls `close` when the response ends

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces


class _AsyncBody(_Body):
    """A response body for an event loop. Under ASGI, Django would collect an ordinary iterator in memory."""

    __iter__ = None  # type: ignore[assignment]  # Django treats a body with `__iter__` as synchronous

    async def __aiter__(self) -> AsyncIterator[bytes]:
        # Read the pieces on the request's thread, which has the database connection.
        following = sync_to_async(lambda: next(self._pieces, None))
        while (piece := await following()) is not None:
            yield piece
