"""The load generator's own WebSocket frames, against the `websockets` library's."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

from bench.load.messages.json_frames import MessageFrames, ack_frame, key_of, message_id_of
from bench.load.peers.websocket import WebSocketPeer, text_frame


def parsed(data: bytes) -> Frame:
    reader = StreamReader()
    reader.feed_data(data)
    steps = Frame.parse(reader.read_exact, mask=True)
    with pytest.raises(StopIteration) as done:
        next(steps)
    frame = done.value.value
    assert isinstance(frame, Frame)
    return frame


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536])
def test_a_frame_is_one_that_servers_read(size: int) -> None:
    frame = parsed(text_frame(b"x" * size))
    assert frame.opcode is Opcode.TEXT
    assert bytes(frame.data) == b"x" * size


@given(st.integers(0, 10**10 - 1))
def test_only_the_key_of_a_message_changes(number: int) -> None:
    frames = MessageFrames(16)
    message = json.loads(bytes(parsed(frames.frame(number)).data))
    first = json.loads(bytes(parsed(frames.frame(0)).data))
    assert message["payload"] == first["payload"]
    assert int(message["key"]) == number
    assert key_of(json.dumps(message, separators=(",", ":")).encode()) == number


def test_an_ack_names_the_delivery() -> None:
    push = b'{"messageId":"CAEQ","payload":"AA==","key":"0000000007"}'
    assert json.loads(bytes(parsed(ack_frame(message_id_of(push))).data)) == {"messageId": "CAEQ"}


@given(st.data())
def test_frames_are_found_however_the_bytes_are_cut(data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.binary(max_size=300), max_size=6))
    stream = b"".join(Frame(Opcode.TEXT, text).serialize(mask=False) for text in texts)
    answer = b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + stream

    async def run() -> list[bytes]:
        peer = WebSocketPeer(b"")
        found: list[bytes] = []
        peer.on_frames = found.extend
        rest = answer
        while rest:
            size = data.draw(st.integers(1, len(rest)))
            peer.data_received(rest[:size])
            rest = rest[size:]
        assert peer.opened.done()
        return found

    assert asyncio.run(run()) == texts
