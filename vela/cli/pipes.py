"""Standard input and output on an event loop: reading and writing never hold up the connection beside them.

A file is always ready. A pipe, a terminal and a socket are waited for, and then read or written in one piece that does
not block; so a slow reader of the output slows the command down and nothing else, and Ctrl-C is always heard.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

__all__ = ["TooMuch", "lines_of", "read_pieces", "read_whole", "write_all"]

_READ_BYTES: Final = 256 * 1024
_WRITE_BYTES: Final = 4096  # a pipe that is ready takes so much without blocking (PIPE_BUF)


async def read_pieces(descriptor: int) -> AsyncIterator[bytes]:
    """What comes, as it comes, to the end. May be cancelled while it waits."""
    loop = asyncio.get_running_loop()
    while True:
        await _until(loop.add_reader, loop.remove_reader, descriptor)
        piece = os.read(descriptor, _READ_BYTES)
        if not piece:
            return
        yield piece


class TooMuch(Exception):
    """What is read does not end where it must."""


async def read_whole(descriptor: int, *, most_bytes: int) -> bytes:
    """All that comes. Raises TooMuch above `most_bytes`."""
    pieces: list[bytes] = []
    left = most_bytes
    async for piece in read_pieces(descriptor):
        left -= len(piece)
        if left < 0:
            raise TooMuch
        pieces.append(piece)
    return b"".join(pieces)


async def lines_of(descriptor: int, *, most_bytes: int) -> AsyncIterator[bytes]:
    """Lines without their ends, the last one also where nothing ends it. Raises TooMuch for one above `most_bytes`."""
    rest: list[bytes] = []
    left = most_bytes
    async for piece in read_pieces(descriptor):
        first, *others = piece.split(b"\n")
        rest.append(first)
        left -= len(first)
        if left < 0:
            raise TooMuch
        if others:
            yield b"".join(rest)
            *whole, last = others
            for line in whole:
                yield line
            rest = [last]
            left = most_bytes - len(last)
    if any(rest):
        yield b"".join(rest)


async def write_all(descriptor: int, data: bytes) -> None:
    """All of it, in order. Raises BrokenPipeError when nobody reads any more."""
    loop = asyncio.get_running_loop()
    view = memoryview(data)
    while view:
        is_file = await _until(loop.add_writer, loop.remove_writer, descriptor)
        written = os.write(descriptor, view if is_file else view[:_WRITE_BYTES])
        view = view[written:]


async def _until(add: Callable[..., Any], remove: Callable[[int], Any], descriptor: int) -> bool:
    """Until it is ready; True for a file, which always is and which no loop can watch."""
    ready = asyncio.Event()
    try:
        add(descriptor, ready.set)
    except PermissionError:
        await asyncio.sleep(0)
        return True
    try:
        await ready.wait()
    finally:
        remove(descriptor)
    return False
