"""The commands that the engine wrote, as the peer reads them."""

from __future__ import annotations

from collections.abc import Iterable

from vela.wire.binary.fields import parse_command
from vela.wire.binary.frames import FrameDecoder
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand


def parse_frames(buffers: Iterable[bytes] | bytes) -> list[tuple[BaseCommand, bytes | None]]:
    """Return the commands in these bytes, each with the payload of its frame."""
    data = buffers if isinstance(buffers, bytes) else b"".join(buffers)
    frames = FrameDecoder(1 << 31).feed(data)
    return [(parse_command(frame.command), frame.payload) for frame in frames]


def only_command(buffers: Iterable[bytes] | bytes) -> BaseCommand:
    """Return the only command in these bytes."""
    ((command, payload),) = parse_frames(buffers)
    assert payload is None
    return command
