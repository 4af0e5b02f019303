"""Events say what changed, once, to those who asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from django.http import HttpRequest

from console import live
from console.live import Feed, Listener, events


class SilentFeed(Feed):
    """A feed whose connection never says anything by itself."""

    async def _listen(self) -> None:
        await asyncio.Event().wait()


def listener(*keys: str, user_id: int = 1) -> Listener:
    return Listener(keys=frozenset(keys), user_id=user_id)


async def test_only_who_asked_is_woken() -> None:
    feed, five, six = SilentFeed(), listener("topic:5", "sub:9"), listener("topic:6")
    feed.join(five)
    feed.join(six)
    feed.tell(["topic:5", "sub:9", "sub:77"])
    assert (five.changed, five.woken.is_set()) == ({"topic:5", "sub:9"}, True)
    assert not six.woken.is_set()
    feed.tell(["*"])
    assert six.changed == {"topic:6"}
    feed.leave(five)
    feed.leave(six)


async def test_the_last_one_out_closes_the_connection() -> None:
    feed, one, two = SilentFeed(), listener("a"), listener("b", user_id=2)
    feed.join(one)
    feed.join(two)
    task = feed._task
    assert task is not None
    feed.leave(one)
    feed.leave(one)
    assert (feed.streams_of(1), feed.streams_of(2), task.cancelling()) == (0, 1, 0)
    feed.leave(two)
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Callable[..., AsyncIterator[str]]:
    """A stream without waiting times, for a person who may look as long as `may_look` says."""

    def start(feed: Feed, asked: Listener, *, may_look: bool = True) -> AsyncIterator[str]:
        async def may_still_look(_request: HttpRequest) -> bool:
            return may_look

        monkeypatch.setattr(live, "COALESCE_S", 0)
        monkeypatch.setattr(live, "HEARTBEAT_S", 0)
        monkeypatch.setattr(live, "RECHECK_S", 60.0 if may_look else 0.0)
        monkeypatch.setattr(live, "_may_still_look", may_still_look)
        return events(HttpRequest(), feed, asked)

    return start


async def test_changes_are_told_together_and_a_quiet_stream_beats(quick: Any) -> None:
    feed, asked = SilentFeed(), listener("topic:5", "sub:9")
    stream = quick(feed, asked)
    assert await anext(stream) == "retry: 3000\n\n"
    feed.tell(["sub:9"])
    feed.tell(["topic:5"])
    assert await anext(stream) == 'id: 1\ndata: ["sub:9", "topic:5"]\n\n'
    assert await anext(stream) == ": still here\n\n"
    feed.tell(["topic:5"])
    assert await anext(stream) == 'id: 2\ndata: ["topic:5"]\n\n'
    await stream.aclose()
    assert feed.streams_of(1) == 0


async def test_who_may_no_longer_look_is_told_and_let_go(quick: Any) -> None:
    feed = SilentFeed()
    stream = quick(feed, listener("topic:5"), may_look=False)
    texts = [text async for text in stream]
    assert texts[-1] == "event: ended\ndata: {}\n\n"
    assert feed.streams_of(1) == 0


@pytest.mark.parametrize(
    ("channel", "payload", "keys"),
    [
        ("vela_page", '["topic:5", "sub:9"]', ["topic:5", "sub:9"]),
        ("vela_page", '["topic:5", 7]', ["topic:5"]),
        ("vela_page", '{"topic": 5}', []),
        ("vela_page", "nonsense", []),
        ("vela_act_done", "12", ["acts", "act:12"]),
    ],
)
def test_notifications_become_keys(channel: str, payload: str, keys: list[str]) -> None:
    assert live._keys_of(channel, payload) == keys
