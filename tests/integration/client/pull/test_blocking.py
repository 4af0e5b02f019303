"""`vela.PullConsumer`, for threads, against a scripted HTTP peer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

import vela
from tests.support.scripted_http import PullPeer, ScriptedHttp
from tests.support.waiting import wait_until
from vela import errors
from vela.blocking.pull import PullConsumer
from vela.options import InitialPosition
from vela.pull_message import PulledMessage

TOPIC = "persistent://public/default/orders"


class Offsets:
    """An offset store with plain methods, which are not coroutines."""

    def __init__(self) -> None:
        self.saved: dict[int, int] = {}
        self.threads: set[int] = set()

    def load(self, topic: str, queue: int) -> int | None:
        self.threads.add(threading.get_ident())
        return self.saved.get(queue)

    def save(self, topic: str, offsets: Mapping[int, int]) -> None:
        assert topic == TOPIC
        self.saved |= offsets


async def test_messages_are_received_and_acknowledged_and_their_offsets_saved(
    peer: PullPeer, http: ScriptedHttp
) -> None:
    peer.publish(*[b"%d" % number for number in range(50)])
    store = Offsets()

    def consume() -> list[bytes]:
        found = []
        with PullConsumer(
            http.url, "orders", offset_store=store, initial_position=InitialPosition.Earliest
        ) as pulling:
            for message in pulling:
                found.append(message.data())
                pulling.acknowledge(message)
                if len(found) == 50:
                    break
            assert pulling.positions()[0].next_offset == 50
            with pytest.raises(errors.Timeout):
                pulling.receive(timeout_millis=10)
        pulling.close()
        with pytest.raises(errors.AlreadyClosed):
            pulling.receive()
        assert list(pulling) == []
        return found

    assert await asyncio.to_thread(consume) == [b"%d" % number for number in range(50)]
    assert store.saved == {0: 50}
    assert threading.get_ident() not in store.threads


async def test_a_listener_runs_in_a_thread_and_may_use_the_consumer(
    peer: PullPeer, http: ScriptedHttp
) -> None:
    peer.publish(b"a", b"b")
    heard: list[bytes] = []
    refused: list[type[Exception]] = []

    def listen(pulling: PullConsumer, message: PulledMessage) -> None:
        assert pulling.positions()[0].commit_offset == 0 or heard
        try:
            pulling.close()
        except errors.InvalidConfiguration as error:
            refused.append(type(error))
        heard.append(message.data())

    def consume() -> None:
        with vela.PullConsumer(
            http.url, "orders", "g", message_listener=listen, initial_position=InitialPosition.Earliest
        ):
            wait_until(lambda: len(heard) == 2, "both messages")

    await asyncio.to_thread(consume)
    assert heard == [b"a", b"b"]
    assert refused == [errors.InvalidConfiguration] * 2
    assert peer.committed == {(0, "g"): 2}


async def test_a_negatively_acked_message_comes_again_and_commit_saves_its_offset(
    peer: PullPeer, http: ScriptedHttp, tmp_path: Path
) -> None:
    peer.publish(b"a")
    store = vela.FileOffsets(tmp_path / "offsets")

    def consume() -> None:
        with vela.PullConsumer(
            http.url,
            "orders",
            offset_store=store,
            initial_position=InitialPosition.Earliest,
            negative_ack_redelivery_delay_ms=1,
        ) as pulling:
            pulling.pause()
            pulling.resume()
            message = pulling.receive(5000)
            pulling.negative_acknowledge(message)
            again = pulling.receive(5000)
            assert (again.data(), again.redelivery_count()) == (b"a", 1)
            pulling.acknowledge(again)
            pulling.commit()
            assert '"0": 1' in (tmp_path / "offsets").read_text()

    await asyncio.to_thread(consume)


async def test_an_offset_store_that_forgets_a_default_raises_an_error_that_arrives(
    http: ScriptedHttp,
) -> None:
    class Empty(Offsets):
        def load(self, topic: str, queue: int) -> int | None:
            return next(iter(self.saved.values()))

    pulling = await asyncio.to_thread(PullConsumer, http.url, "orders", offset_store=Empty())
    try:
        with pytest.raises(RuntimeError, match="StopIteration"):
            await asyncio.wait_for(pulling.aio._store.load(TOPIC, 0), 5)
    finally:
        await asyncio.to_thread(pulling.close)


async def test_wrong_arguments_raise_in_the_caller(http: ScriptedHttp) -> None:
    async def listen(pulling: object, message: object) -> None: ...

    def consume() -> None:
        with pytest.raises(errors.InvalidConfiguration, match=r"vela\.aio"):
            PullConsumer(http.url, "orders", "g", message_listener=listen)
        with pytest.raises(errors.InvalidConfiguration, match="hold_ms"):
            PullConsumer(http.url, "orders", "g", hold_ms=30_000)
        with pytest.raises(errors.ConnectError), PullConsumer("http://127.0.0.1:1", "orders", "g"):
            pass

    await asyncio.to_thread(consume)


async def test_receivers_of_several_threads_share_the_messages(peer: PullPeer, http: ScriptedHttp) -> None:
    peer.publish(*[b"%d" % number for number in range(200)])
    found: list[bytes] = []

    def consume() -> None:
        with PullConsumer(http.url, "orders", "g", initial_position=InitialPosition.Earliest) as pulling:

            def take() -> None:
                for message in pulling:
                    found.append(message.data())
                    pulling.acknowledge(message)

            threads = [threading.Thread(target=take) for _ in range(4)]
            for thread in threads:
                thread.start()
            wait_until(lambda: len(found) == 200, "all messages")
        for thread in threads:
            thread.join(5)
            assert not thread.is_alive()

    await asyncio.to_thread(consume)
    assert sorted(found, key=int) == [b"%d" % number for number in range(200)]
    assert peer.committed == {(0, "g"): 200}
