"""A client of the binary protocol that sends what a test says, right or wrong."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from vela.wire.binary import commands
from vela.wire.binary.enums import InitialPosition, SubType
from vela.wire.binary.frames import FrameDecoder
from vela.wire.pb import vela_pulsar_pb2 as pb
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand

__all__ = ["RawPulsar", "frame", "watch_topic_list", "watch_topic_list_close"]


def frame(command: BaseCommand) -> bytes:
    """Return the simple frame of a command."""
    body = command.SerializePartialToString()
    return (len(body) + 4).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body


def watch_topic_list(
    namespace: str, pattern: str, *, watcher_id: int, request_id: int, known_hash: str | None = None
) -> bytes:
    """Return the frame of WATCH_TOPIC_LIST."""
    body = pb.CommandWatchTopicList(
        request_id=request_id,
        watcher_id=watcher_id,
        namespace=namespace,
        topics_pattern=pattern,
        topics_hash=known_hash,
    )
    return frame(BaseCommand(type=BaseCommand.WATCH_TOPIC_LIST, watchTopicList=body))


def watch_topic_list_close(watcher_id: int, *, request_id: int) -> bytes:
    """Return the frame of WATCH_TOPIC_LIST_CLOSE."""
    body = pb.CommandWatchTopicListClose(request_id=request_id, watcher_id=watcher_id)
    return frame(BaseCommand(type=BaseCommand.WATCH_TOPIC_LIST_CLOSE, watchTopicListClose=body))


class RawPulsar:
    """A TCP connection, after CONNECT unless `connect` is False. Use it in a `with` block."""

    def __init__(self, url: str, *, connect: bool = True, timeout_s: float = 20.0) -> None:
        parts = urlsplit(url)
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout_s)
        self._decoder = FrameDecoder(64 * 1024 * 1024)
        self._heard: list[BaseCommand] = []
        if connect:
            self.ask("CONNECTED", commands.connect(client_version="raw", protocol_version=21))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def tell(self, *frames: bytes) -> None:
        """Send frames."""
        self.socket.sendall(b"".join(frames))

    def hear(self) -> BaseCommand | None:
        """Return the next command other than PING, or None when the broker has closed the connection."""
        while True:
            while not self._heard:
                try:
                    data = self.socket.recv(65536)
                except ConnectionResetError:
                    data = b""
                if not data:
                    return None
                self._heard += [BaseCommand.FromString(each.command) for each in self._decoder.feed(data)]
            command = self._heard.pop(0)
            if command.type != BaseCommand.PING:
                return command

    def ask(self, expected: str, *frames: bytes) -> BaseCommand:
        """Send frames and return the answer, which must be of this kind."""
        self.tell(*frames)
        answer = self.hear()
        assert answer is not None, f"closed instead of {expected}"
        assert BaseCommand.Type.Name(answer.type) == expected, answer
        return answer

    def open_producer(self, topic: str, *, producer_id: int = 1) -> None:
        """Open a producer."""
        self.ask("PRODUCER_SUCCESS", commands.producer(topic, producer_id=producer_id, request_id=1))

    def subscribe(
        self, topic: str, subscription: str = "s", *, type_: SubType = SubType.SHARED, priority: int = 0
    ) -> None:
        """Subscribe consumer 1 from the beginning."""
        self.ask(
            "SUCCESS",
            commands.subscribe(
                topic,
                subscription,
                type=type_,
                consumer_id=1,
                request_id=2,
                initial_position=InitialPosition.EARLIEST,
                priority=priority,
            ),
        )

    def active_change(self) -> bool:
        """Return the next notification of a Failover consumer."""
        command = self.hear()
        assert command is not None
        assert command.type == BaseCommand.ACTIVE_CONSUMER_CHANGE, command
        return command.active_consumer_change.is_active

    def until_closed(self) -> list[BaseCommand]:
        """Return everything that the broker still sends before it closes the connection."""
        said = []
        while (command := self.hear()) is not None:
            said.append(command)
        return said
