"""The pull consumer's listener, start and close against a scripted HTTP peer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from tests.integration.client.pull.pulling import TOPIC, consumer, data
from tests.support.scripted_http import DROP, Answer, HttpRequest, PullPeer, ScriptedHttp
from tests.support.waiting import until
from vela import errors
from vela.aio.pull.consumer import PullConsumer
from vela.aio.pull.offsets import MemoryOffsets
from vela.authentication import AuthenticationBasic, AuthenticationToken
from vela.pull_message import PulledMessage


async def test_a_message_is_finished_when_its_listener_returns(peer: PullPeer, http: ScriptedHttp) -> None:
    """A listener that fails gets the message again, up to a limit. Other messages are processed meanwhile."""
    seen: list[tuple[bytes, int]] = []
    offsets = MemoryOffsets()

    async def listen(pulling: PullConsumer, message: PulledMessage) -> None:
        seen.append((message.data(), message.redelivery_count()))
        if message.data() == b"poison" or (message.data() == b"once" and not message.attempts):
            raise ValueError("no")

    peer.publish(b"poison", b"once", b"good")
    async with consumer(
        http,
        message_listener=listen,
        negative_ack_redelivery_delay_ms=5,
        max_reconsume_times=2,
        offset_store=offsets,
    ) as pulling:
        await until(lambda: len(seen) == 6, "all calls")
        with pytest.raises(errors.InvalidConfiguration):
            await pulling.receive()
    assert seen[:3] == [(b"poison", 0), (b"once", 0), (b"good", 0)]
    assert sorted(seen[3:]) == [(b"once", 1), (b"poison", 1), (b"poison", 2)]
    assert offsets.saved == {(TOPIC, 0): 3}


async def test_a_listener_may_be_a_plain_function_and_may_not_be_cut_short(
    peer: PullPeer, http: ScriptedHttp
) -> None:
    entered, may_leave = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    offsets = MemoryOffsets()

    def listen(pulling: PullConsumer, message: PulledMessage) -> None:
        loop.call_soon_threadsafe(entered.set)
        asyncio.run_coroutine_threadsafe(may_leave.wait(), loop).result(10)

    peer.publish(b"a", b"b")
    pulling = consumer(http, message_listener=listen, offset_store=offsets)
    await pulling.start()
    await entered.wait()
    closing = asyncio.ensure_future(pulling.close())
    await asyncio.sleep(0)
    assert not closing.done()
    may_leave.set()
    await closing
    assert offsets.saved == {(TOPIC, 0): 1}  # the listener was not called for the second message


async def test_as_many_calls_run_at_once_as_were_asked_for(peer: PullPeer, http: ScriptedHttp) -> None:
    """The calls run in separate threads, because asyncio's few default threads belong to the application."""
    together = threading.Barrier(20)
    passed: list[int] = []

    def listen(pulling: PullConsumer, message: PulledMessage) -> None:
        passed.append(together.wait(5))

    peer.publish(*[b"x"] * 20)
    async with consumer(http, message_listener=listen, listener_concurrency=20):
        await until(lambda: len(passed) == 20, "all calls")


async def test_a_listener_that_returns_an_awaitable_is_awaited(peer: PullPeer, http: ScriptedHttp) -> None:
    heard = asyncio.Event()

    async def said() -> None:
        heard.set()

    peer.publish(b"x")
    async with consumer(http, message_listener=lambda pulling, message: said()):
        await asyncio.wait_for(heard.wait(), 5)


async def test_a_listener_that_ends_with_a_cancellation_of_its_own_gets_the_next_message(
    peer: PullPeer, http: ScriptedHttp
) -> None:
    seen: list[bytes] = []

    async def listen(pulling: PullConsumer, message: PulledMessage) -> None:
        seen.append(message.data())
        helper = asyncio.ensure_future(asyncio.Event().wait())
        helper.cancel()
        await helper

    peer.publish(b"a", b"b")
    async with consumer(http, message_listener=listen, max_reconsume_times=0):
        await until(lambda: seen == [b"a", b"b"], "both messages")


@pytest.mark.parametrize("error", [StopIteration, SystemExit])
async def test_a_listener_on_a_thread_gets_the_next_message_whatever_it_raises(
    peer: PullPeer, http: ScriptedHttp, error: type[BaseException]
) -> None:
    seen: list[bytes] = []

    def listen(pulling: PullConsumer, message: PulledMessage) -> None:
        seen.append(message.data())
        raise error

    peer.publish(b"a", b"b")
    async with consumer(http, message_listener=listen, max_reconsume_times=0):
        await until(lambda: seen == [b"a", b"b"], "both messages")


async def test_a_close_during_the_start_leaves_nothing_behind(peer: PullPeer, http: ScriptedHttp) -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def slow(request: HttpRequest) -> Answer:
        asked.set()
        await may_answer.wait()
        return await peer(request)

    http.script = slow
    pulling = consumer(http)
    starting = asyncio.ensure_future(pulling.start())
    await asked.wait()
    await pulling.close()
    may_answer.set()
    with pytest.raises(errors.VelaError):
        await starting
    await until(lambda: http.open_connections == 0, "the connections to be closed")


async def test_a_listener_may_close_its_consumer(peer: PullPeer, http: ScriptedHttp) -> None:
    closed = asyncio.Event()

    async def listen(pulling: PullConsumer, message: PulledMessage) -> None:
        await pulling.close()
        closed.set()

    peer.publish(b"a")
    await consumer(http, message_listener=listen).start()
    await asyncio.wait_for(closed.wait(), 5)


async def test_a_listener_may_close_a_consumer_that_another_call_closes(
    peer: PullPeer, http: ScriptedHttp
) -> None:
    entered, may_close = asyncio.Event(), asyncio.Event()

    async def listen(pulling: PullConsumer, message: PulledMessage) -> None:
        entered.set()
        await may_close.wait()
        await pulling.close()

    peer.publish(b"a")
    pulling = consumer(http, message_listener=listen)
    await pulling.start()
    await entered.wait()
    closing = asyncio.ensure_future(pulling.close())
    await asyncio.sleep(0)
    may_close.set()
    await asyncio.wait_for(closing, 5)


async def test_a_second_close_returns_only_when_the_offsets_are_saved(
    peer: PullPeer, http: ScriptedHttp
) -> None:
    saving, may_save = asyncio.Event(), asyncio.Event()

    class Slow(MemoryOffsets):
        async def save(self, topic: str, offsets: Mapping[int, int]) -> None:
            if offsets[0]:
                saving.set()
                await may_save.wait()
            await super().save(topic, offsets)

    store = Slow()
    peer.publish(b"a")
    pulling = consumer(http, offset_store=store, commit_interval_ms=60_000)
    await pulling.start()
    await data(pulling, 1)
    first = asyncio.ensure_future(pulling.close())
    await saving.wait()
    second = asyncio.ensure_future(pulling.close())
    await asyncio.sleep(0.05)
    assert not second.done()
    may_save.set()
    await asyncio.wait_for(second, 5)
    assert store.saved == {(TOPIC, 0): 1}
    await first


async def test_a_negatively_acked_message_is_received_again_once(peer: PullPeer, http: ScriptedHttp) -> None:
    peer.publish(b"a", b"b")
    async with consumer(http, negative_ack_redelivery_delay_ms=10) as pulling:
        a, b = await pulling.receive(5000), await pulling.receive(5000)
        pulling.acknowledge(b)
        for message in (a, a, b):
            pulling.negative_acknowledge(message)
        assert await data(pulling, 1) == [b"a"]
        with pytest.raises(errors.Timeout):
            await pulling.receive(timeout_millis=100)


async def test_a_paused_consumer_pulls_nothing(peer: PullPeer, http: ScriptedHttp) -> None:
    async with consumer(http) as pulling:
        await until(lambda: len(peer.pulls) == 2, "a held pull, after the one for the beginning")
        pulling.pause()
        peer.publish(b"by the pull that was held")
        assert await data(pulling, 1) == [b"by the pull that was held"]
        peer.publish(b"a")
        with pytest.raises(errors.Timeout):
            await pulling.receive(timeout_millis=100)
        pulling.resume()
        assert await data(pulling, 1) == [b"a"]


@pytest.mark.parametrize("passes", range(6))
async def test_a_consumer_closes_at_any_moment_after_it_was_resumed(
    peer: PullPeer, http: ScriptedHttp, passes: int
) -> None:
    pulling = consumer(http)
    await pulling.start()
    await until(lambda: len(peer.pulls) == 2, "a held pull, after the one for the beginning")
    pulling.pause()
    peer.publish(b"by the pull that was held")
    await data(pulling, 1)
    await until(lambda: bool(pulling._resumed._waiters), "the queue to wait until it is resumed")
    pulling.resume()
    for _ in range(passes):
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await pulling.close()


async def test_iteration_ends_with_the_close_and_receivers_stand_in_line(
    peer: PullPeer, http: ScriptedHttp
) -> None:
    pulling = consumer(http)
    with pytest.raises(errors.ConsumerNotInitialized, match="start the consumer"):
        await pulling.receive()
    await asyncio.gather(pulling.start(), pulling.start())
    waiting = [asyncio.ensure_future(pulling.receive()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    peer.publish(b"a", b"b")
    assert [(await each).data() for each in waiting[1:]] == [b"a", b"b"]
    iterating = asyncio.ensure_future(anext(pulling))
    await asyncio.sleep(0)
    await pulling.close()
    await pulling.close()
    with pytest.raises(StopAsyncIteration):
        await iterating
    with pytest.raises(errors.AlreadyClosed):
        await pulling.receive()
    with pytest.raises(errors.AlreadyClosed):
        await pulling.start()
    await until(lambda: http.open_connections == 0, "the connections to be closed")


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        ((404, b'{"reason": "topic t does not exist"}'), errors.TopicNotFound, "does not exist"),
        ((400, b'{"reason": "no such name"}'), errors.InvalidConfiguration, "no such name"),
        ((401, b""), errors.AuthenticationError, "401"),
        ((403, b"<html>"), errors.AuthorizationError, "403"),
        ((503, b'{"reason": "no lock"}'), errors.ServiceUnitNotReady, "no lock"),
        ((500, b"[]"), errors.UnknownError, "500"),
        ((200, b"[]"), errors.UnknownError, "not an answer"),
        ((200, b'{"queues": "many"}'), errors.UnknownError, "many"),
        (DROP, errors.ConnectError, "127.0.0.1"),
    ],
)
async def test_a_start_that_fails_says_why_and_may_be_tried_again(
    peer: PullPeer, http: ScriptedHttp, answer: Answer, error: type[errors.VelaError], said: str
) -> None:
    pulling = consumer(http)
    peer.refuse = lambda request: answer
    with pytest.raises(error, match=said):
        await pulling.start()
    peer.refuse = lambda request: None
    peer.publish(b"a")
    async with pulling:
        assert await data(pulling, 1) == [b"a"]


async def test_a_refusal_of_the_credentials_is_passed_on(peer: PullPeer, http: ScriptedHttp) -> None:
    class Recording(AuthenticationToken):
        seen: ClassVar[list[bytes]] = []

        def refused(self, data: bytes) -> None:
            self.seen.append(data)

    peer.refuse = lambda request: (401, b"")
    pulling = consumer(http, authentication=Recording("old"))
    with pytest.raises(errors.AuthenticationError):
        await pulling.start()
    await pulling.close()
    assert Recording.seen == [b"old"]


async def test_a_final_refusal_of_the_broker_reaches_the_receiver(peer: PullPeer, http: ScriptedHttp) -> None:
    peer.refuse = lambda request: (
        (400, b'{"reason": "filter: cannot be read"}') if "suspend" in request.query else None
    )
    async with consumer(http) as pulling:
        with pytest.raises(errors.InvalidConfiguration, match="cannot be read"):
            await pulling.receive(5000)


@pytest.mark.parametrize(
    ("authentication", "field"),
    [
        (AuthenticationToken("abc"), "Bearer abc"),
        (AuthenticationToken(lambda: "def"), "Bearer def"),
        (AuthenticationBasic("me", "secret"), "Basic bWU6c2VjcmV0"),
        (None, None),
    ],
)
async def test_each_pull_carries_the_credentials(
    http: ScriptedHttp, authentication: Any, field: str | None
) -> None:
    async with consumer(http, authentication=authentication):
        assert {each.fields.get("authorization") for each in http.heard} == {field}


@asynccontextmanager
async def _two_topics(url: str, store: MemoryOffsets) -> AsyncIterator[tuple[PullConsumer, PullConsumer]]:
    async with (
        PullConsumer(url, "a/b/with%2F and ü", offset_store=store) as one,
        PullConsumer(url, "a/b/other", offset_store=store) as other,
    ):
        yield one, other


async def test_names_are_encoded_and_stores_tell_topics_apart(peer: PullPeer, http: ScriptedHttp) -> None:
    store = MemoryOffsets()
    async with _two_topics(http.url.replace("http", "ws"), store):
        pass
    paths = {each.path for each in http.heard if "queues" in each.path}
    assert paths == {"/pull/v1-queues/a/b/with%2F and ü", "/pull/v1-queues/a/b/other"}
    assert store.saved == {
        ("persistent://a/b/with%2F and ü", 0): 0,
        ("persistent://a/b/other", 0): 0,
    }
