"""Standard input and output on an event loop, so that reading and writing never block the connection to the broker.

A file is always ready. For a pipe, a terminal or a socket the loop waits until it is ready, and then reads or writes
one piece that does not block. So a slow reader of the output slows down only the command, and Ctrl-C always works.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

__all__ = ["TooMuch", "lines_of", "read_pieces", "read_whole", "write_all"]

_READ_BYTES: Final = 256 * 1024
_WRITE_BYTES: Final = 4096  # PIPE_BUF: a pipe that is ready takes this much without blocking


async def read_pieces(descriptor: int) -> AsyncIterator[bytes]:
    """Yield data as it arrives, until the end of the input. Safe to cancel while it waits."""
    loop = asyncio.get_running_loop()
    while True:
        await _until(loop.add_reader, loop.remove_reader, descriptor)
        piece = os.read(descriptor, _READ_BYTES)
        if not piece:
            return
        yield piece


class TooMuch(Exception):
    """The input is larger than the limit."""


async def read_whole(descriptor: int, *, most_bytes: int) -> bytes:
    """Read the whole input. Raises TooMuch above `most_bytes`."""
    pieces: list[bytes] = []
    left = most_bytes
    async for piece in read_pieces(descriptor):
        left -= len(piece)
        if left < 0:
            raise TooMuch
        pieces.append(piece)
    return b"".join(pieces)


async def lines_of(descriptor: int, *, most_bytes: int) -> AsyncIterator[bytes]:
    """Yield lines without their line ends; the last line may lack one. Raises TooMuch for a line above `most_bytes`."""
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
    """Write all data in order. Raises BrokenPipeError if the reader has closed the pipe."""
    loop = asyncio.get_running_loop()
    view = memoryview(data)
    while view:
        is_file = await _until(loop.add_writer, loop.remove_writer, descriptor)
        written = os.write(descriptor, view if is_file else view[:_WRITE_BYTES])
        view = view[written:]


async def _until(add: Callable[..., Any], remove: Callable[[int], Any], descriptor: int) -> bool:
    """Wait until the descriptor is ready. Return True for a file, which is always ready and which no loop can watch."""
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
