"""Frames: cut a byte stream into commands and payloads, and put sizes in front of commands and payloads to send."""

from __future__ import annotations

import struct
from collections import deque
from typing import Final, NamedTuple

from vela.wire.errors import FrameTooLarge, MalformedFrame, RemoteProtocolError

__all__ = ["Frame", "FrameDecoder", "payload_frame_head", "simple_frame"]

_SIZES: Final = struct.Struct(">II")
_HEAD_BYTES: Final = 8
_SMALL_PIECE_BYTES: Final = 4096
_ALL: Final = 1 << 62  # more frames than there can be


class Frame(NamedTuple):
    """One frame. It is a named tuple, which is cheap to create: every received frame needs one."""

    command: bytes  # serialized BaseCommand
    payload: bytes | None  # what follows the command, None = nothing


class FrameDecoder:
    """Cuts a stream into frames. The stream may arrive in pieces of any size.

    Work and memory are linear in the bytes fed. A frame inside one piece is cut out of it (one copy). A frame
    spread over many pieces is joined once, when its last piece has arrived.
    """

    __slots__ = ("_at", "_missing", "_needed", "_parts", "_start", "_uncut", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        """The limit of a frame's announced totalSize. It may be set at any time and applies from the next frame on."""
        self._start = bytearray()  # sizes and command of a frame not yet complete
        # how many bytes `_start` needs; grows by the command's size once that is known
        self._needed = _HEAD_BYTES
        self._parts: list[memoryview | bytearray] = []  # pieces of the frame's payload
        self._missing = 0  # payload bytes still to come
        self._uncut = b""  # from `_at` on: bytes after the frames that were asked for
        self._at = 0

    @property
    def has_uncut(self) -> bool:
        """Whether the last `feed_into` cut `most` frames and left bytes uncut."""
        return self._at < len(self._uncut)

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """Take the next bytes and return the frames that they complete.

        Raises FrameTooLarge or MalformedFrame, with the frames before the bad one in its `events`; do not
        feed again after that.
        """
        frames: list[Frame] = []
        try:
            self.feed_into(data, frames)
        except RemoteProtocolError as error:
            error.events = tuple(frames)
            raise
        return frames

    def feed_into(
        self, data: bytes | bytearray | memoryview, frames: list[Frame] | deque[Frame], *, most: int = _ALL
    ) -> None:
        """Do the same as `feed`, but append to `frames`, which keeps the frames before an error.

        Cut at most `most` frames. If `has_uncut` is then True, call again, with new bytes or with none.
        """
        if not isinstance(data, bytes):
            data = bytes(data)  # the caller may reuse its buffer while pieces of it wait here
        position = 0
        if self._uncut:
            if data:
                data = self._uncut[self._at :] + data
            else:
                data, position = self._uncut, self._at
            self._uncut = b""
        end = len(data)
        most += len(frames)
        if self._start:
            position = self._continue(data, position, frames)
        while end - position >= _HEAD_BYTES:
            if len(frames) >= most:
                self._uncut, self._at = data, position
                return
            total, command_bytes = _SIZES.unpack_from(data, position)
            self._check(total, command_bytes)
            command_at = position + _HEAD_BYTES
            payload_at, frame_end = command_at + command_bytes, position + 4 + total
            if frame_end > end:
                break
            payload = data[payload_at:frame_end] if payload_at < frame_end else None
            frames.append(Frame(data[command_at:payload_at], payload))
            position = frame_end
        if position < end:
            self._continue(data, position, frames)

    def _check(self, total: int, command_bytes: int) -> None:
        if total > self.max_frame_bytes:
            raise FrameTooLarge(f"a frame of {total} bytes; the limit is {self.max_frame_bytes}")
        if command_bytes + 4 > total:
            raise MalformedFrame(f"a command of {command_bytes} bytes in a frame of {total}")

    def _continue(self, data: bytes, position: int, frames: list[Frame] | deque[Frame]) -> int:
        """Add the part of the current frame that `data` has from `position` on. Return the position after it."""
        start = self._start
        while len(start) < self._needed:
            if position == len(data):
                return position
            taken = data[position : position + self._needed - len(start)]
            start += taken
            position += len(taken)
            if len(start) == _HEAD_BYTES:
                total, command_bytes = _SIZES.unpack(start)
                self._check(total, command_bytes)
                self._needed = _HEAD_BYTES + command_bytes
                self._missing = total - 4 - command_bytes
        if self._missing:
            position = self._add_payload(data, position)
        if not self._missing:
            frames.append(Frame(bytes(start[_HEAD_BYTES:]), b"".join(self._parts) if self._parts else None))
            self._start, self._needed, self._parts = bytearray(), _HEAD_BYTES, []
        return position

    def _add_payload(self, data: bytes, position: int) -> int:
        piece = memoryview(data)[position : position + self._missing]
        size = len(piece)
        if size == 0:
            return position
        if size >= _SMALL_PIECE_BYTES:
            self._parts.append(piece)
        elif self._parts and isinstance(last := self._parts[-1], bytearray):
            # Join small pieces, so that a peer that sends byte by byte does not cost an object for each byte.
            last += piece
        else:
            self._parts.append(bytearray(piece))
        self._missing -= size
        return position + size


def simple_frame(command: bytes) -> bytes:
    """Return the frame of a serialized BaseCommand without a payload."""
    size = len(command)
    return _SIZES.pack(size + 4, size) + command


def payload_frame_head(command: bytes, payload_bytes: int) -> bytes:
    """Return the sizes and the serialized BaseCommand that go in front of a payload of `payload_bytes`."""
    size = len(command)
    return _SIZES.pack(size + 4 + payload_bytes, size) + command
