"""The stream against a real PostgreSQL: one listener a process, nothing held while it waits, ended with the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import cast

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection, connections
from django.http import StreamingHttpResponse
from django.test import AsyncClient, Client

from console import live

pytestmark = pytest.mark.django_db(transaction=True)

WAIT_S = 20.0


@pytest.fixture
def observer(transactional_db: None) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection of the test's own, beside Django's."""
    parameters = connection.get_connection_params()
    wanted = {name: value for name, value in parameters.items() if name not in ("context", "cursor_factory")}
    with psycopg.connect(**wanted, autocommit=True) as own:
        yield cast("psycopg.Connection[tuple[object, ...]]", own)


@pytest.fixture
def logged_in(transactional_db: None) -> AsyncClient:
    """A person's browser."""
    user = User.objects.create_user("vera")
    sync, client = Client(), AsyncClient()
    sync.force_login(user)
    client.cookies = sync.cookies
    connection.close()
    return client


async def opened(client: AsyncClient, query: str) -> AsyncIterator[str]:
    """The stream after its first line."""
    response = await client.get(f"/live?{query}")
    assert response["Content-Type"] == "text/event-stream"
    assert response["X-Accel-Buffering"] == "no"
    stream = cast("StreamingHttpResponse", response).__aiter__()

    async def texts() -> AsyncIterator[str]:
        async for text in stream:
            yield text.decode()

    lines = texts()
    assert await anext(lines) == "retry: 3000\n\n"
    return lines


async def test_a_notification_reaches_who_asked(
    logged_in: AsyncClient, observer: psycopg.Connection[tuple[object, ...]]
) -> None:
    stream = await opened(logged_in, "key=topic:5&key=act:7")
    async with asyncio.timeout(WAIT_S):
        # As soon as the listener listens, everybody is told to look once.
        assert '["act:7", "topic:5"]' in await anext(stream)
        observer.execute("""SELECT pg_notify('vela_page', '["topic:6"]')""")
        observer.execute("""SELECT pg_notify('vela_page', '["topic:5", "sub:1"]')""")
        assert 'data: ["topic:5"]' in await anext(stream)
        observer.execute("SELECT pg_notify('vela_act_done', '7')")
        assert 'data: ["act:7"]' in await anext(stream)
        held = observer.execute(
            "SELECT count(*) FILTER (WHERE query LIKE 'LISTEN%%'), count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
    assert held == (1, 1)
    await stream.aclose()  # type: ignore[attr-defined]


async def test_the_session_s_end_ends_the_stream(
    logged_in: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "RECHECK_S", 0.0)
    monkeypatch.setattr(live, "HEARTBEAT_S", 0.05)
    stream = await opened(logged_in, "key=topic:5")
    async with asyncio.timeout(WAIT_S):
        await anext(stream)
        await Session.objects.all().adelete()
        assert [text async for text in stream][-1] == "event: ended\ndata: {}\n\n"


async def test_nobody_gets_no_stream(transactional_db: None) -> None:
    response = await AsyncClient().get("/live?key=topic:5")
    assert response.status_code == 401


async def test_one_person_cannot_open_endless_streams(
    logged_in: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "STREAMS_PER_USER", 1)
    stream = await opened(logged_in, "key=topic:5")
    assert (await logged_in.get("/live?key=topic:5")).status_code == 429
    await stream.aclose()  # type: ignore[attr-defined]
    await sync_to_async(connections.close_all)()  # what the refused request read with
