"""No page of the console keeps its database connection, even if it fails or its browser leaves."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from tests.support.console import ConsoleSession
from tests.support.vela import VelaProcess
from tests.support.waiting import wait_until

LEAVING = 100
WRONG = 40
CONNECTIONS = 8  # `max_size` of the pool in config/settings.py
WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE application_name = 'vela pages' AND wait_event_type = 'Lock' AND query_start >= %s
"""
CANCELLED = "took too long to shut down and was killed"  # Daphne logs it a second after the browser has left


class Bookmarks:
    """The table of bookmarks, locked, so that each page of bookmarks waits and keeps its connection.

    PostgreSQL ends the page's query after five seconds, and the page answers with an error.
    """

    def __init__(self, database: psycopg.Connection) -> None:
        self._database = database

    @classmethod
    @contextmanager
    def locked(cls, vela: VelaProcess) -> Iterator[Bookmarks]:
        """Lock the table until the end of the block."""
        url = vela.database_url
        with psycopg.connect(url) as holder, psycopg.connect(url, autocommit=True) as database:
            holder.execute("LOCK TABLE vela_bookmark")
            yield cls(database)
            holder.rollback()

    def now(self) -> object:
        """Return the current time of the database."""
        return self._database.execute("SELECT clock_timestamp()").fetchall()[0][0]

    def waiting(self, since: object) -> int:
        """Return how many pages wait now. Count only pages whose query began at this time or later."""
        return int(self._database.execute(WAITING, (since,)).fetchall()[0][0])


@pytest.fixture
def session(shared_vela: VelaProcess) -> ConsoleSession:
    return ConsoleSession.logged_in(shared_vela)


def every_connection_serves(vela: VelaProcess, session: ConsoleSession) -> bool:
    """Load as many pages at once as the pool has connections. Return whether each page got a connection."""
    with ThreadPoolExecutor(CONNECTIONS) as people:
        with Bookmarks.locked(vela) as bookmarks:
            began = bookmarks.now()
            pages = [people.submit(session.get, "/bookmarks") for _ in range(CONNECTIONS)]
            wait_until(
                lambda: bookmarks.waiting(began) == CONNECTIONS or any(page.done() for page in pages),
                "a page on each connection, or the end of one",
                timeout_s=60,
            )
        return [page.result().status for page in pages] == [200] * CONNECTIONS


def check_that_every_connection_serves(vela: VelaProcess, session: ConsoleSession) -> None:
    """Try until every connection serves: on a busy machine, the first pages may time out before the last ones wait."""
    wait_until(lambda: every_connection_serves(vela, session), "pages on all connections", timeout_s=60)


def test_browsers_that_leave_at_once_give_every_connection_back(
    shared_vela: VelaProcess, session: ConsoleSession
) -> None:
    for _ in range(LEAVING):
        with session.leaving("/topics"):
            pass
    check_that_every_connection_serves(shared_vela, session)


def test_browsers_that_leave_slow_pages_give_every_connection_back(
    shared_vela: VelaProcess, session: ConsoleSession
) -> None:
    log = shared_vela.data_dir / "log" / "console.log"
    before = log.read_text().count(CANCELLED)
    with Bookmarks.locked(shared_vela) as bookmarks:
        for left in range(1, CONNECTIONS + 1):
            began = bookmarks.now()
            with session.leaving("/bookmarks"):
                wait_until(lambda: bookmarks.waiting(began), "the page to wait", timeout_s=60)  # noqa: B023
            cancelled = before + left
            wait_until(lambda: log.read_text().count(CANCELLED) >= cancelled, "its end", timeout_s=60)  # noqa: B023
    check_that_every_connection_serves(shared_vela, session)


@pytest.mark.parametrize(
    "path", ["/t/persistent/public/default/no-such-topic", "/no-such-page", "/topics?after=%00"]
)
def test_error_pages_give_every_connection_back(
    shared_vela: VelaProcess, session: ConsoleSession, path: str
) -> None:
    # Request all pages at once, because the console may answer each in a separate thread.
    with ThreadPoolExecutor(CONNECTIONS) as people:
        statuses = {page.status for page in people.map(session.get, [path] * WRONG)}
    assert statuses <= {400, 404}
    check_that_every_connection_serves(shared_vela, session)
