"""Decoding of client frames, shared by all JSON endpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from broker.doors.websocket.json.errors import InvalidJson

__all__ = ["MAX_ITEMS_PER_FRAME", "Frame", "guarded_decode"]

MAX_ITEMS_PER_FRAME = 1000

Frame: TypeAlias = str | bytes | bytearray | memoryview

_T = TypeVar("_T")

# msgspec raises UnicodeError for invalid UTF-8 and RecursionError for deep nesting.
DECODE_ERRORS: tuple[type[Exception], ...] = (msgspec.MsgspecError, UnicodeError, RecursionError)
_TRUNCATED: Final = "Input data was truncated"


def guarded_decode(decode: Callable[[Frame], _T], frame: Frame) -> _T:
    """Return `decode(frame)`. Raises InvalidJson if the text cannot be decoded."""
    try:
        return decode(frame)
    except RecursionError:
        raise InvalidJson("the JSON text is nested too deeply") from None
    except DECODE_ERRORS as error:
        text = str(error)
        if text == _TRUNCATED:
            text = "the JSON text ends too early: send each object whole, in one text frame"
        raise InvalidJson(text) from None


def array_items(value: list[Any]) -> list[Any]:
    """Return the items of an array frame. Raises InvalidJson if there are no items or too many."""
    if not value:
        raise InvalidJson("an array frame needs at least one object")
    if len(value) > MAX_ITEMS_PER_FRAME:
        raise InvalidJson(f"an array frame takes at most {MAX_ITEMS_PER_FRAME} objects")
    return value
