"""The pull consumer against a scripted HTTP peer: what it asks for, when it asks, and how it handles the answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from tests.integration.client.pull.pulling import TOPIC, consumer, data
from tests.support.scripted_http import DROP, Answer, HttpRequest, PullPeer, ScriptedHttp
from tests.support.waiting import until
from vela import errors
from vela.aio.pull import queue as pull_queue
from vela.aio.pull.offsets import MemoryOffsets
from vela.core.consuming.pull_loop import PullLimits
from vela.options import InitialPosition


@pytest.fixture
def quick_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the consumer try again after a moment instead of three seconds."""
    monkeypatch.setattr(pull_queue, "FAILED_MS", 30)


@pytest.mark.row("S3.1")
async def test_each_answer_puts_the_pull_back_in_line(peer: PullPeer, http: ScriptedHttp) -> None:
    """At 32 messages a pull, 100 messages take four pulls. The peer holds the fifth pull."""
    peer.publish(*[b"%d" % number for number in range(100)])
    async with consumer(http) as pulling:
        peer.pulls.clear()
        assert await data(pulling, 100) == [b"%d" % number for number in range(100)]
        await until(lambda: len(peer.pulls) == 5, "the pull after the last message")
        assert peer.pulls == [(0, 0), (0, 32), (0, 64), (0, 96), (0, 100)]
        peer.publish(b"later")
        assert await data(pulling, 1) == [b"later"]
        assert http.open_connections == 1


@pytest.mark.row("S3.1")
async def test_with_an_interval_the_next_pull_waits(peer: PullPeer, http: ScriptedHttp) -> None:
    peer.publish(*[b"x"] * 64)
    async with consumer(http, pull_interval_ms=200) as pulling:
        await data(pulling, 32)
        began_s = asyncio.get_running_loop().time()
        await data(pulling, 32)
        assert asyncio.get_running_loop().time() - began_s > 0.1


@pytest.mark.row("S3.19")
@pytest.mark.parametrize(
    ("options", "hold_ms"), [({}, "20000"), ({"message_listener": print}, "15000"), ({"hold_ms": 7}, "7")]
)
async def test_the_options_decide_the_parking_time_that_is_requested(
    http: ScriptedHttp, options: Mapping[str, Any], hold_ms: str
) -> None:
    async with consumer(http, **options):
        await until(lambda: any("suspend" in each.query for each in http.heard), "a pull")
        held = next(each for each in http.heard if "suspend" in each.query)
        assert held.query["suspend_timeout_ms"] == hold_ms


@pytest.mark.row("S3.15")
@pytest.mark.parametrize("fault", ["silence", "dropped", "503", "nonsense", "exception"])
@pytest.mark.usefixtures("quick_failures")
async def test_after_silence_or_a_failure_the_same_pull_is_repeated(
    peer: PullPeer,
    http: ScriptedHttp,
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer.publish(b"a", b"b")
    faults = 3

    async def faulty(request: HttpRequest) -> Answer:
        nonlocal faults
        if "suspend" not in request.query or request.query["offset"] != "2" or not faults:
            return await peer(request)
        faults -= 1
        if fault == "silence":
            await asyncio.Event().wait()
        return {"dropped": DROP, "503": (503, b'{"reason": "starting"}')}.get(fault, (200, b'{"code": "?"}'))

    http.script = faulty
    if fault == "exception":
        http.script = peer
        original = pull_queue.QueuePuller._note

        def broken(self: pull_queue.QueuePuller, *of: Any) -> None:
            nonlocal faults
            if faults:
                faults -= 1
                raise RuntimeError("injected")
            original(self, *of)

        monkeypatch.setattr(pull_queue.QueuePuller, "_note", broken)
    async with consumer(http, hold_ms=100, request_timeout_ms=150) as pulling:
        assert await data(pulling, 2) == [b"a", b"b"]
        await until(lambda: faults == 0, "the faults")
        peer.publish(b"c")
        assert await data(pulling, 1) == [b"c"]
    warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert len(warnings) == 1  # one warning, and not one for each attempt


@pytest.mark.row("S3.15")
async def test_after_a_failure_the_consumer_waits_three_seconds(peer: PullPeer, http: ScriptedHttp) -> None:
    async with consumer(http) as pulling:
        await until(lambda: len(peer.pulls) == 2, "a held pull")
        http.drop_all()
        peer.publish(b"a")
        with pytest.raises(errors.Timeout):
            await pulling.receive(timeout_millis=500)
        assert await data(pulling, 1) == [b"a"]


@pytest.mark.row("S3.18")
@pytest.mark.usefixtures("quick_failures")
async def test_a_broker_that_disappears_while_it_parks_a_pull_loses_nothing(
    peer: PullPeer, http: ScriptedHttp
) -> None:
    async with consumer(http) as pulling:
        for number in range(5):
            await until(lambda: peer.pulls[-1] == (0, len(peer.queues[0])), "a held pull")
            http.drop_all()
            peer.publish(b"%d" % number)
            assert await data(pulling, 1) == [b"%d" % number]


async def test_a_corrected_offset_is_taken_and_saved_at_once(
    peer: PullPeer, http: ScriptedHttp, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = MemoryOffsets()
    offsets.saved[TOPIC, 0] = 3
    peer.publish(*[b"%d" % number for number in range(20)])
    peer.least = 10
    async with consumer(http, offset_store=offsets, commit_interval_ms=60_000, max_messages=4) as pulling:
        stale = await pulling.receive(5000)
        assert stale.data() == b"10"
        assert offsets.saved == {(TOPIC, 0): 10}
        assert "and not 3" in caplog.text
        assert (await pulling.receive(5000)).data() == b"11"
        await until(lambda: (0, 20) in peer.pulls, "the queue's end")
        peer.least = 0
        del peer.queues[0][5:]  # as if the broker was restored from an older backup
        peer.publish(b"new")
        await until(lambda: (0, 6) in peer.pulls, "the pull at the corrected offset")
        pulling.acknowledge(stale)
        peer.publish(b"newer")
        assert await data(pulling, 1) == [b"newer"]  # the messages pulled before the correction are dropped


async def test_a_queue_is_pulled_on_while_its_corrected_offset_cannot_be_saved(
    peer: PullPeer, http: ScriptedHttp, caplog: pytest.LogCaptureFixture
) -> None:
    class Store(MemoryOffsets):
        is_damaged = False

        async def save(self, topic: str, offsets: Mapping[int, int]) -> None:
            if self.is_damaged:
                raise errors.InvalidConfiguration("repair the file")
            await super().save(topic, offsets)

    store = Store()
    peer.publish(b"0", b"1", b"2")
    async with consumer(http, offset_store=store, commit_interval_ms=10) as pulling:
        await data(pulling, 3)
        await until(lambda: store.saved == {(TOPIC, 0): 3}, "a commit")
        await until(lambda: peer.pulls[-1] == (0, 3), "the held pull")
        store.is_damaged = True
        peer.queues[0].clear()  # as if the topic was deleted and created again
        peer.publish(b"wakes the held pull, which is behind the end")
        await until(lambda: "repair the file" in caplog.text, "the failed save")
        peer.publish(b"new")
        assert await data(pulling, 1) == [b"new"]
        store.is_damaged = False
        await until(lambda: store.saved == {(TOPIC, 0): 2}, "a later commit")
    assert "cannot pull" not in caplog.text


async def test_no_more_is_pulled_than_the_limits_say(peer: PullPeer, http: ScriptedHttp) -> None:
    peer.publish(*[b"x"] * 500)
    async with consumer(http, limits=PullLimits(messages=100)) as pulling:
        messages = [await pulling.receive(5000) for _ in range(128)]
        with pytest.raises(errors.Timeout):
            await pulling.receive(timeout_millis=200)
        assert pulling.positions()[0][:2] == (128, 0)
        for message in messages[1:]:
            pulling.acknowledge(message)
        more = [await pulling.receive(5000) for _ in range(100)]
        assert pulling.positions()[0].commit_offset == 0
        for message in (messages[0], *more):
            pulling.acknowledge(message)
        assert len(await data(pulling, 500 - 228)) == 272


async def test_offsets_are_saved_regularly_and_at_the_close(peer: PullPeer, http: ScriptedHttp) -> None:
    peer.publish(*[b"%d" % number for number in range(10)])
    async with consumer(http, offset_store=None, subscription_name="g", commit_interval_ms=20) as pulling:
        assert peer.committed == {(0, "g"): 0}
        messages = [await pulling.receive(5000) for _ in range(10)]
        for message in (*messages[:3], *messages[4:]):
            pulling.acknowledge(message)
        await until(lambda: peer.committed == {(0, "g"): 3}, "a commit of the finished offset")
    async with consumer(http, offset_store=None, subscription_name="g", commit_interval_ms=60_000) as pulling:
        assert await data(pulling, 7) == [b"%d" % number for number in range(3, 10)]
        assert peer.committed == {(0, "g"): 3}
    assert peer.committed == {(0, "g"): 10}


async def test_a_store_that_fails_is_tried_again(
    peer: PullPeer, http: ScriptedHttp, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(MemoryOffsets):
        failures = 0

        async def save(self, topic: str, offsets: Mapping[int, int]) -> None:
            if offsets[0] == 1 and self.failures < 2:
                self.failures += 1
                raise OSError("the disk is full")
            await super().save(topic, offsets)

    store = Failing()
    peer.publish(b"a")
    async with consumer(http, offset_store=store, commit_interval_ms=10) as pulling:
        assert await data(pulling, 1) == [b"a"]
        await until(lambda: store.saved == {(TOPIC, 0): 1}, "the third attempt")
    assert caplog.text.count("the disk is full") == 2


async def test_a_proxy_of_the_environment_is_not_asked_for_a_broker_on_this_computer(
    peer: PullPeer, http: ScriptedHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    peer.publish(b"a")
    async with consumer(http) as pulling:
        assert await data(pulling, 1) == [b"a"]


async def test_a_queue_whose_offset_is_refused_does_not_keep_the_others_from_being_saved(
    peer: PullPeer, http: ScriptedHttp
) -> None:
    peer.queues = [[], []]
    pulling = consumer(http, offset_store=None, subscription_name="g")
    await pulling.start()
    peer.refuse = lambda request: (
        (409, b'{"reason": "1 consumers attached"}')
        if (request.method, request.query.get("queue")) == ("PUT", "0")
        else None
    )
    for queue in range(2):
        peer.publish(b"a", queue=queue)
    await data(pulling, 2)
    with pytest.raises(errors.ConsumerBusy, match="attached"):
        await pulling.close()
    assert peer.committed == {(0, "g"): 0, (1, "g"): 1}


@pytest.mark.parametrize(
    ("position", "expected"), [(InitialPosition.Latest, b"new"), (InitialPosition.Earliest, b"old")]
)
async def test_without_a_stored_offset_a_queue_begins_at_the_initial_position(
    peer: PullPeer, http: ScriptedHttp, position: InitialPosition, expected: bytes
) -> None:
    peer.publish(b"gone", b"old")
    peer.least = 1
    async with consumer(http, initial_position=position) as pulling:
        peer.publish(b"new")
        assert await data(pulling, 1) == [expected]


async def test_all_queues_are_pulled_and_new_ones_from_their_beginning(
    peer: PullPeer, http: ScriptedHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vela.aio.pull.consumer.LOOK_FOR_QUEUES_MS", 20)
    peer.queues = [[], [], []]
    for queue in range(3):
        peer.publish(b"%d" % queue, queue=queue)
    async with consumer(http, initial_position=InitialPosition.Latest) as pulling:
        for queue in range(3):
            peer.publish(b"%d later" % queue, queue=queue)
        assert sorted(await data(pulling, 3)) == [b"0 later", b"1 later", b"2 later"]
        peer.queues.append([])
        peer.publish(b"3", queue=3)
        message = await pulling.receive(5000)
        assert (message.data(), message.queue, message.message_id().partition()) == (b"3", 3, 3)


async def test_only_the_chosen_queues_are_pulled(peer: PullPeer, http: ScriptedHttp) -> None:
    peer.queues = [[], [], []]
    for queue in range(3):
        peer.publish(b"%d" % queue, queue=queue)
    async with consumer(http, queues=[2]) as pulling:
        assert await data(pulling, 1) == [b"2"]
        assert set(pulling.positions()) == {2}
    with pytest.raises(errors.InvalidConfiguration, match="there is no 3"):
        async with consumer(http, queues=[1, 3]):
            pass


async def test_tags_and_filter_are_the_brokers_to_apply(peer: PullPeer, http: ScriptedHttp) -> None:
    peer.publish(b"a", tag="A")
    peer.publish(*[b"b"] * 40, tag="B")
    peer.publish(b"a2", tag="A")
    async with consumer(http, tags="A", property_filter="a > 3 AND b = 'x y'") as pulling:
        assert await data(pulling, 2) == [b"a", b"a2"]
        await until(lambda: pulling.positions()[0].commit_offset == 42, "the last pull")
    assert http.heard[-1].query["filter"] == "a > 3 AND b = 'x y'"
