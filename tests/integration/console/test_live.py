"""The live stream against a real PostgreSQL: who may have one, what it says, and what it leaves behind."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any, cast

import psycopg
import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.layers import get_channel_layer
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection, connections
from django.test import Client

from console.access import Role
from console.live import consumer, feed, watch
from console.live.feed import Feed
from console.live.routing import live_application
from console.models import Grant
from tests.integration.console.conftest import granted
from tests.integration.console.shop import make_topic
from tests.support.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)

WAIT_S = 20.0
Observer = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def observer(transactional_db: None) -> Iterator[Observer]:
    """A database connection that the console knows nothing about."""
    parameters = connection.get_connection_params()
    wanted = {name: value for name, value in parameters.items() if name not in ("context", "cursor_factory")}
    with psycopg.connect(**wanted, autocommit=True) as own:
        yield cast("Observer", own)


@pytest.fixture
def vera(transactional_db: None) -> Iterator[str]:
    """The session of Vera, who may see everything."""
    client = Client()
    client.force_login(granted(User.objects.create_user("vera"), {"*": Role.VIEWER}))
    connection.close()
    yield client.cookies["sessionid"].value
    connections.close_all()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the pauses. A test that needs a pause sets it."""
    monkeypatch.setattr(consumer, "COALESCE_S", 0.0)
    monkeypatch.setattr(feed, "_FIRST_PAUSE_S", 0.01)


class Stream:
    """One live stream, as a browser reads it."""

    def __init__(
        self, own_feed: Feed, query: str, session: str = "", *, method: str = "GET", host: str = "localhost"
    ) -> None:
        headers = [(b"host", host.encode()), (b"cookie", f"sessionid={session}".encode())]
        communicator: Any = ApplicationCommunicator  # asgiref has no types for this
        self._peer = communicator(
            live_application(own_feed),
            {
                "type": "http",
                "method": method,
                "path": "/live",
                "query_string": query.encode(),
                "headers": headers,
            },
        )

    async def open(self) -> int:
        """Send the request; return the answer's status."""
        await self._peer.send_input({"type": "http.request", "body": b""})
        start = await self._peer.receive_output(WAIT_S)
        self.headers = dict(start["headers"])
        return int(start["status"])

    async def text(self) -> str:
        """Return the next piece of the answer that is not a `health` event."""
        while (text := await self.piece()).startswith("event: health"):
            pass
        return text

    async def health(self) -> dict[str, Any]:
        """Return the next `health` event: what is wrong with the broker, beat, the worker or the database."""
        while not (text := await self.piece()).startswith("event: health\ndata: "):
            pass
        found: dict[str, Any] = json.loads(text.removeprefix("event: health\ndata: "))
        return found

    async def piece(self) -> str:
        """Return the next piece of the answer."""
        return str((await self._peer.receive_output(WAIT_S))["body"].decode())

    async def says_nothing(self) -> bool:
        """Return whether nothing but `health` events arrives."""
        while not await self._peer.receive_nothing():
            if not (await self.piece()).startswith("event: health"):
                return False
        return True

    async def close(self) -> None:
        """Disconnect, as a browser does when its tab is closed, and wait until the consumer has ended."""
        await self._peer.send_input({"type": "http.disconnect"})
        await self._peer.wait(WAIT_S)

    async def cancel(self) -> None:
        """End the consumer as the server does when it stops."""
        self._peer.future.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(self._peer.future, WAIT_S)


HEARTBEAT = ": still here\n\n"


async def opened(own_feed: Feed, query: str, session: str) -> Stream:
    """Open a stream, and read it up to the event that makes every page load its parts once."""
    stream = Stream(own_feed, query, session)
    assert await stream.open() == 200
    assert await stream.text() == "retry: 3000\n\n"
    text = await stream.text()
    while text == HEARTBEAT:  # on a busy machine the first heartbeat comes before the first look has ended
        text = await stream.text()
    assert text == events(*sorted(query.replace("key=", "").split("&")))
    return stream


def events(*keys: str) -> str:
    return "".join(f"event: {key}\ndata:\n\n" for key in keys)


def tell(observer: Observer, keys: str) -> None:
    observer.execute("SELECT pg_notify('vela_page', %s)", [keys])


def listeners(observer: Observer) -> list[int]:
    """Return the process ids of the database sessions that run LISTEN."""
    rows = observer.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        " AND pid <> pg_backend_pid()"
    )
    return [pid for (pid,) in rows]


async def test_a_notification_reaches_the_pages_that_show_what_changed(vera: str, observer: Observer) -> None:
    own_feed = Feed()
    five = await opened(own_feed, "key=topic:5&key=act:7", vera)
    six = await opened(own_feed, "key=topic:6", vera)
    tell(observer, '["topic:5", "sub:1"]')
    assert await five.text() == events("topic:5")
    observer.execute("SELECT pg_notify('vela_act_done', '7')")
    assert await five.text() == events("act:7")
    assert await six.says_nothing()
    await five.close()
    await six.close()


async def test_streams_share_two_connections_and_hold_no_other(vera: str, observer: Observer) -> None:
    own_feed = Feed()
    streams = [await opened(own_feed, "key=topic:5", vera) for _ in range(3)]
    assert (await streams[0].health())["effects"]  # after this, the watch has opened its connection
    # The connection that read the user's rights is closed, and PostgreSQL takes a moment to end it.
    await until(lambda: held(observer) == 2, "nothing but the feed's and the watch's connection")
    assert len(listeners(observer)) == 1
    for stream in streams:
        await stream.close()
    await until(lambda: not listeners(observer), "the connection's end")


def held(observer: Observer) -> int:
    """Count the connections opened after the observer's; older ones may belong to a console that other tests run."""
    found = observer.execute(
        "SELECT count(*) FROM pg_stat_activity a JOIN pg_stat_activity own ON own.pid = pg_backend_pid()"
        " WHERE a.datname = current_database() AND a.backend_start > own.backend_start"
    ).fetchone()
    assert found is not None
    return int(found[0])


async def test_changes_during_a_pause_between_sends_are_sent_together(
    vera: str, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    go_on = asyncio.Event()

    async def sleep(pause_s: float) -> None:
        slept.append(pause_s)
        await go_on.wait()

    monkeypatch.setattr(consumer, "COALESCE_S", 1.0)
    monkeypatch.setattr(consumer, "asyncio", _with_sleep(sleep))
    own_feed = Feed()
    stream = await opened(own_feed, "key=topic:5&key=sub:9", vera)
    tell(observer, '["topic:5"]')
    tell(observer, '["sub:9", "topic:5"]')
    assert await stream.says_nothing()
    go_on.set()
    assert await stream.text() == events("sub:9", "topic:5")
    assert slept[:1] == [1.0]
    await stream.close()


def _with_sleep(sleep: Any) -> Any:
    """Return a copy of the module asyncio whose `sleep` is this function."""
    names = {name: getattr(asyncio, name) for name in dir(asyncio) if not name.startswith("_")}
    return type(
        "asyncio", (), {**{k: staticmethod(v) for k, v in names.items()}, "sleep": staticmethod(sleep)}
    )


async def test_a_quiet_stream_sends_a_heartbeat(vera: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "HEARTBEAT_S", 0.0)
    stream = Stream(Feed(), "key=topic:5", vera)
    await stream.open()
    assert await stream.text() == "retry: 3000\n\n"
    assert HEARTBEAT in [await stream.text() for _ in range(3)]
    await stream.close()


async def test_pages_read_again_after_the_listening_connection_was_killed(
    vera: str, observer: Observer
) -> None:
    stream = await opened(Feed(), "key=topic:5", vera)
    [pid] = listeners(observer)
    observer.execute("SELECT pg_terminate_backend(%s)", [pid])
    assert await stream.text() == events("topic:5")
    assert listeners(observer) != [pid]
    tell(observer, '["topic:5"]')
    assert await stream.text() == events("topic:5")
    await stream.close()


async def test_the_session_s_end_ends_the_stream(vera: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "RECHECK_S", 0.0)
    monkeypatch.setattr(consumer, "HEARTBEAT_S", 0.05)
    stream = await opened(Feed(), "key=topic:5", vera)
    await Session.objects.all().adelete()
    await sync_to_async(connections.close_all)()
    async with asyncio.timeout(WAIT_S):
        while (text := await stream.text()) == HEARTBEAT:
            pass
    assert text == "event: ended\ndata:\n\n"
    await stream.close()


async def test_without_login_there_is_no_stream(transactional_db: None) -> None:
    assert await Stream(Feed(), "key=topic:5").open() == 401
    assert await Stream(Feed(), "key=topic:5", "made-up").open() == 401


async def test_an_account_that_was_switched_off_has_no_stream(vera: str) -> None:
    await User.objects.all().aupdate(is_active=False)
    await sync_to_async(connections.close_all)()
    assert await Stream(Feed(), "key=topic:5", vera).open() == 401


async def test_without_a_role_there_is_no_stream(vera: str) -> None:
    await Grant.objects.all().adelete()
    await sync_to_async(connections.close_all)()
    assert await Stream(Feed(), "key=topic:5", vera).open() == 403


async def test_a_stream_follows_only_what_the_user_may_see(
    vera: str, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = await sync_to_async(_two_topics)()
    await Grant.objects.all().aupdate(pattern="garden/*")
    await sync_to_async(connections.close_all)()
    own_feed = Feed()
    stream = Stream(own_feed, f"key=topic:{mine}&key=topic:{other}&key=sub:{2**63}&key=acts", vera)
    assert await stream.open() == 200
    assert await stream.text() == "retry: 3000\n\n"
    assert await stream.text() == events("acts", f"topic:{mine}")
    observer.execute("SELECT pg_notify('vela_page', %s)", (json.dumps([f"topic:{other}", f"topic:{mine}"]),))
    assert await stream.text() == events(f"topic:{mine}")
    monkeypatch.setattr(consumer, "RECHECK_S", 0.0)
    monkeypatch.setattr(consumer, "HEARTBEAT_S", 0.05)
    observer.execute("UPDATE vela_grant SET pattern = 'public/*'")
    observer.execute("SELECT pg_notify('vela_page', %s)", (json.dumps([f"topic:{mine}"]),))
    async with asyncio.timeout(WAIT_S):
        while await stream.text() != "event: ended\ndata:\n\n":
            pass
    await stream.close()


def _two_topics() -> list[int]:
    names = ("persistent://garden/fruit/melons", "persistent://public/default/orders")
    return [make_topic(name).pk for name in names]


@pytest.mark.parametrize(
    ("query", "method", "host", "status"),
    [
        ("key=topic:5", "GET", "elsewhere.example", 400),
        ("key=topic:5%00", "GET", "localhost", 400),
        ("key=tables&key=topic:x", "GET", "localhost", 400),
        ("key=topic:5", "POST", "localhost", 405),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused(
    query: str, method: str, host: str, status: int, vera: str
) -> None:
    assert await Stream(Feed(), query, vera, method=method, host=host).open() == status


async def test_plain_http_is_redirected_where_a_proxy_ends_tls(vera: str, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    stream = Stream(Feed(), "key=topic:5", vera)
    assert await stream.open() == 301
    assert stream.headers[b"Location"] == b"https://localhost/live?key=topic:5"


async def test_one_person_cannot_open_endless_streams(vera: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "STREAMS_PER_USER", 1)
    own_feed = Feed()
    stream = await opened(own_feed, "key=topic:5", vera)
    assert await Stream(own_feed, "key=topic:5", vera).open() == 429
    await stream.close()
    again = await opened(own_feed, "key=topic:5", vera)
    await again.close()


async def test_streams_leave_no_thread_task_or_group_behind(vera: str, observer: Observer) -> None:
    own_feed = Feed()
    tasks = len(asyncio.all_tasks())
    await (await opened(own_feed, "key=topic:5", vera)).close()
    threads = threading.active_count()
    streams = [await opened(own_feed, "key=topic:5&key=sub:9", vera) for _ in range(10)]
    assert threading.active_count() == threads
    for stream in streams[:5]:
        await stream.close()
    for stream in streams[5:]:
        await stream.cancel()
    await until(lambda: len(asyncio.all_tasks()) == tasks, "the end of the streams' tasks")
    assert get_channel_layer().groups == {}
    await until(lambda: not listeners(observer), "the connection's end")


def beat(observer: Observer, *, age_s: float = 0.0) -> None:
    """Write the heartbeats of a broker, beat and worker, as they were `age_s` ago."""
    observer.execute(
        "INSERT INTO vela_broker (id, host, pid, started_at, seen_at, http_url, pulsar_url)"
        " VALUES (1, 'shop-1', 77, now(), now() - make_interval(secs => %(age_s)s), '', '')"
        " ON CONFLICT (id) DO UPDATE SET seen_at = EXCLUDED.seen_at",
        {"age_s": age_s},
    )
    observer.execute(
        "INSERT INTO vela_heartbeat (name, at) SELECT name, now() + interval '1 hour'"
        " FROM unnest(ARRAY['beat', 'worker']) AS name ON CONFLICT (name) DO UPDATE SET at = EXCLUDED.at"
    )


async def until_health(stream: Stream, words: str) -> dict[str, Any]:
    """Wait for a `health` event whose text contains `words`. If `words` is empty, so must the text be: all is well."""
    async with asyncio.timeout(WAIT_S):
        while words not in (found := await stream.health())["html"] or bool(words) != bool(found["html"]):
            pass
    return found


async def test_a_stream_says_that_the_broker_is_silent_and_that_it_is_back(
    vera: str, observer: Observer
) -> None:
    beat(observer, age_s=-3600)
    stream = Stream(Feed(), "", vera)
    assert await stream.open() == 200
    assert (await until_health(stream, ""))["effects"] == []
    beat(observer, age_s=6)
    found = await until_health(stream, "The broker is silent")
    assert found["effects"] == ["unsure"]
    assert found["since_ms"] is not None
    beat(observer, age_s=-3600)
    assert (await until_health(stream, ""))["effects"] == []
    await stream.close()


async def test_readers_of_one_console_get_the_notice_in_their_own_languages(
    vera: str, observer: Observer
) -> None:
    beat(observer, age_s=6)
    own_feed = Feed()
    for query, words in (
        ("", "The broker is silent"),
        ("language=zh-hans", "broker 无响应"),
        ("language=en", "The broker is silent"),
        ("language=xx&key=topic:5", "The broker is silent"),
    ):
        stream = Stream(own_feed, query, vera)
        assert await stream.open() == 200
        await until_health(stream, words)
        await stream.close()


async def test_a_stream_says_that_the_database_does_not_answer(
    vera: str, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "SETTLE_S", 0.0)
    beat(observer, age_s=-3600)
    stream = Stream(Feed(), "", vera)
    await stream.open()
    await until_health(stream, "")
    with observer.transaction():
        observer.execute("LOCK TABLE vela_broker IN ACCESS EXCLUSIVE MODE")
        found = await until_health(stream, "The database does not answer")
        assert found["effects"] == ["unread", "unsure"]
    await until_health(stream, "")
    await stream.close()


async def test_a_finding_is_repeated_so_that_silence_means_something(
    vera: str, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "HEARTBEAT_S", 0.05)
    beat(observer, age_s=-3600)
    stream = Stream(Feed(), "key=topic:5", vera)
    await stream.open()
    assert [(await stream.health())["html"] for _ in range(5)] == [""] * 5
    await stream.close()
