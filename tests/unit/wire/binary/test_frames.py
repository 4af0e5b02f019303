"""Frames: any cut of the stream, limits before buffering, linear work."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.wire.binary.frames import Frame, FrameDecoder, payload_frame_head, simple_frame
from vela.wire.errors import FrameTooLarge, MalformedFrame, RemoteProtocolError

LIMIT = 100_000
FRAMES = st.lists(
    st.tuples(st.binary(max_size=40), st.none() | st.binary(min_size=1, max_size=9000)), max_size=6
)


def encode(command: bytes, payload: bytes | None) -> bytes:
    return simple_frame(command) if payload is None else payload_frame_head(command, len(payload)) + payload


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(c, len(data)) for c in cuts), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(FRAMES, st.lists(st.integers(0, 60_000), max_size=12))
def test_any_cut_gives_the_same_frames(frames: list[tuple[bytes, bytes | None]], cuts: list[int]) -> None:
    data = b"".join(encode(*frame) for frame in frames)
    decoder = FrameDecoder(LIMIT)
    assert [frame for piece in cut(data, cuts) for frame in decoder.feed(piece)] == frames


@given(FRAMES)
def test_byte_by_byte_gives_the_same_frames(frames: list[tuple[bytes, bytes | None]]) -> None:
    frames = [(command, payload and payload[:50]) for command, payload in frames]
    data = b"".join(encode(*frame) for frame in frames)
    decoder = FrameDecoder(LIMIT)
    assert [frame for byte in data for frame in decoder.feed(bytes((byte,)))] == frames


@given(FRAMES, st.lists(st.integers(0, 60_000), max_size=12), st.integers(1, 3))
def test_a_few_at_a_time_gives_the_same_frames(
    frames: list[tuple[bytes, bytes | None]], cuts: list[int], most: int
) -> None:
    data = b"".join(encode(*frame) for frame in frames)
    decoder, found = FrameDecoder(LIMIT), list[Frame]()
    for piece in cut(data, cuts):
        before = len(found)
        decoder.feed_into(piece, found, most=most)
        while decoder.has_uncut:
            # In addition, a frame that began in an earlier piece may end here.
            assert len(found) - before <= most + 1
            before = len(found)
            decoder.feed_into(b"", found, most=most)
    assert found == frames


@given(FRAMES, st.integers(1, 99))
def test_new_bytes_follow_those_that_are_not_cut_yet(
    frames: list[tuple[bytes, bytes | None]], percent: int
) -> None:
    frames = [*frames, (b"first", None), (b"second", b"payload"), (b"third", None)]
    data = b"".join(encode(*frame) for frame in frames)
    at = len(data) * percent // 100
    decoder, found = FrameDecoder(LIMIT), list[Frame]()
    for piece in (data[:at], data[at:]):
        decoder.feed_into(piece, found, most=1)
    while decoder.has_uncut:
        decoder.feed_into(b"", found, most=1)
    assert found == frames


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=4))
def test_garbage_gives_the_same_frames_and_the_same_error_however_cut(data: bytes, cuts: list[int]) -> None:
    def outcome(pieces: list[bytes]) -> tuple[list[object], str]:
        frames: list[object] = []
        decoder = FrameDecoder(1000)
        for piece in pieces:
            try:
                frames += decoder.feed(piece)
            except RemoteProtocolError as error:
                return [*frames, *error.events], str(error)
        return frames, ""

    assert outcome(cut(data, cuts)) == outcome([data])


@pytest.mark.row("S0.10")
def test_a_frame_at_the_limit_passes_and_one_byte_more_does_not() -> None:
    payload = bytes(LIMIT - 4 - 3)
    assert FrameDecoder(LIMIT).feed(encode(b"cmd", payload)) == [Frame(b"cmd", payload)]
    with pytest.raises(FrameTooLarge, match=str(LIMIT)):
        FrameDecoder(LIMIT).feed(struct.pack(">II", LIMIT + 1, 3))


@pytest.mark.parametrize("sizes", [(0, 0), (3, 0), (4, 1), (10, 7), (10, 2**32 - 1)])
def test_sizes_that_contradict_each_other_are_refused(sizes: tuple[int, int]) -> None:
    with pytest.raises(MalformedFrame):
        FrameDecoder(LIMIT).feed(struct.pack(">II", *sizes))


def test_frames_before_a_bad_one_are_not_lost() -> None:
    with pytest.raises(FrameTooLarge) as caught:
        FrameDecoder(LIMIT).feed(encode(b"one", None) + encode(b"two", b"x") + b"\xff" * 8)
    assert caught.value.events == (Frame(b"one", None), Frame(b"two", b"x"))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_buffer_may_be_reused_after_feeding(kind: type[bytes | bytearray | memoryview]) -> None:
    payload = bytes(range(256)) * 64
    buffer = bytearray(encode(b"cmd", payload))
    decoder = FrameDecoder(LIMIT)
    decoder.feed(kind(buffer)[:10_000])
    rest = bytes(buffer[10_000:])
    buffer[:] = bytes(len(buffer))
    (frame,) = decoder.feed(rest)
    assert frame == Frame(b"cmd", payload)
    assert type(frame.command) is type(frame.payload) is bytes


def test_a_large_frame_in_small_pieces_costs_few_objects() -> None:
    """If 40 KB come byte by byte, they must not become 40,000 buffers."""
    decoder = FrameDecoder(LIMIT)
    data = encode(b"cmd", bytes(40_000))
    for byte in data[:-1]:
        assert decoder.feed(bytes((byte,))) == []
    assert len(decoder._parts) == 1
    assert decoder.feed(data[-1:]) == [Frame(b"cmd", bytes(40_000))]


def test_a_large_frame_in_large_pieces_is_not_copied_until_it_is_whole() -> None:
    decoder = FrameDecoder(6_000_000)
    data = encode(b"cmd", bytes(5_000_000))
    pieces = [data[i : i + 65536] for i in range(0, len(data), 65536)]
    for piece in pieces[:-1]:
        assert decoder.feed(piece) == []
    assert all(isinstance(part, memoryview) for part in decoder._parts)
    assert decoder.feed(pieces[-1]) == [Frame(b"cmd", bytes(5_000_000))]
