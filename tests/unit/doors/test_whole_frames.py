"""WebSocket frames that come whole, compared with a plain reading of RFC 6455."""

from __future__ import annotations

import struct

from hypothesis import example, given
from hypothesis import strategies as st

from broker.doors.http.whole_frames import whole_frame

MOST = 3_000


def frame(
    payload: bytes, *, head: int = 0x81, mask: bytes = b"\x01\x7f\x80\xff", wide: bool = False
) -> bytes:
    """Return a masked frame. `wide` writes two bytes of length where one is enough."""
    length = len(payload)
    size = bytes([0x80 | length]) if length < 126 and not wide else struct.pack("!BH", 0x80 | 126, length)
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
    return bytes([head]) + size + mask + masked


frames = st.builds(
    frame,
    st.binary(max_size=300) | st.integers(0, MOST).map(lambda size: b"ab" * (size // 2) + b"c" * (size % 2)),
    head=st.sampled_from([0x81, 0x82]),
    mask=st.binary(min_size=4, max_size=4),
)


@given(
    st.lists(st.tuples(st.booleans(), st.binary(max_size=300), st.binary(min_size=4, max_size=4)), max_size=5)
)
def test_frames_in_one_piece_are_read_one_after_the_other(sent: list[tuple[bool, bytes, bytes]]) -> None:
    data = b"".join(
        frame(text, head=0x82 if is_binary else 0x81, mask=mask) for is_binary, text, mask in sent
    )
    at, heard = 0, []
    while (found := whole_frame(data, at, MOST)) is not None:
        at, is_binary, payload = found
        heard.append((is_binary, payload))
    assert heard == [(is_binary, payload) for is_binary, payload, _ in sent]
    assert at == len(data)


@given(frames, st.binary(max_size=20), st.binary(max_size=20))
def test_a_frame_that_is_not_complete_is_left_alone(whole: bytes, before: bytes, after: bytes) -> None:
    for end in {0, 1, 2, 5, 6, 7, 8, len(whole) - 1}:
        if end < len(whole):
            assert whole_frame(before + whole[:end], len(before), MOST) is None
    found = whole_frame(before + whole + after, len(before), MOST)
    assert found is not None
    assert found[0] == len(before) + len(whole)


@given(st.binary(min_size=2, max_size=40))
@example(frame(b"fragment", head=0x01))
@example(frame(b"the rest of a message", head=0x80))
@example(frame(b"ping", head=0x89))
@example(frame(b"compressed", head=0xC1))
@example(frame(b"short", wide=True))
@example(b"\x81\x05hello")
def test_anything_but_a_whole_masked_message_is_left_alone(data: bytes) -> None:
    found = whole_frame(data, 0, MOST)
    if data[0] not in (0x81, 0x82) or not data[1] & 0x80 or data[1] == 0xFF or data[1:2] == b"\xfe":
        assert found is None
    elif found is not None:
        assert found[0] == 6 + (data[1] & 0x7F) <= len(data)


def test_a_message_above_the_limit_is_left_alone() -> None:
    assert whole_frame(frame(b"x" * MOST), 0, MOST) is not None
    assert whole_frame(frame(b"x" * (MOST + 1)), 0, MOST) is None
