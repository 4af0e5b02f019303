"""No page of the console keeps its connection to the database: no error page, and none whose browser leaves."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import psycopg
import pytest

from tests.support.console import ConsoleSession
from tests.support.vela import VelaProcess
from tests.support.waiting import wait_until

LEAVING = 100
WRONG = 40
CONNECTIONS = 8  # `max_size` of the pool in config/settings.py
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'vela pages' AND wait_event_type = 'Lock'"
)
CANCELLED = "took too long to shut down and was killed"  # Daphne logs it a second after the browser has left


@pytest.fixture
def session(shared_vela: VelaProcess) -> ConsoleSession:
    return ConsoleSession.logged_in(shared_vela)


@contextmanager
def locked_bookmarks(vela: VelaProcess) -> Iterator[None]:
    """Make each page of bookmarks wait, and keep its connections, until the end of the block."""
    with psycopg.connect(vela.database_url) as database:
        database.execute("LOCK TABLE vela_bookmark")
        yield
        database.rollback()


def wait_for_a_page_on_each_connection(vela: VelaProcess) -> None:
    with psycopg.connect(vela.database_url, autocommit=True) as database:
        wait_until(
            lambda: database.execute(WAITING).fetchone() == (CONNECTIONS,), "a page on each connection"
        )


def check_that_every_connection_serves(vela: VelaProcess, session: ConsoleSession) -> None:
    """Wait for a page, then load as many pages at once as the pool has connections."""
    wait_until(lambda: session.get("/bookmarks").status == 200, "a page after the others", timeout_s=60)
    with ThreadPoolExecutor(CONNECTIONS) as people:
        with locked_bookmarks(vela):
            pages = [people.submit(session.get, "/bookmarks") for _ in range(CONNECTIONS)]
            wait_for_a_page_on_each_connection(vela)
        assert [page.result().status for page in pages] == [200] * CONNECTIONS


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
    with locked_bookmarks(shared_vela):
        with ExitStack() as browsers:
            for _ in range(CONNECTIONS):
                browsers.enter_context(session.leaving("/bookmarks"))
            wait_for_a_page_on_each_connection(shared_vela)
        wait_until(lambda: log.read_text().count(CANCELLED) >= before + CONNECTIONS, "cancelled requests")
    check_that_every_connection_serves(shared_vela, session)


@pytest.mark.parametrize(
    "path", ["/t/persistent/public/default/no-such-topic", "/no-such-page", "/topics?after=%00"]
)
def test_error_pages_give_every_connection_back(
    shared_vela: VelaProcess, session: ConsoleSession, path: str
) -> None:
    with ThreadPoolExecutor(
        CONNECTIONS
    ) as people:  # at once, because each may be answered in a thread of its own
        statuses = {page.status for page in people.map(session.get, [path] * WRONG)}
    assert statuses <= {400, 404}
    check_that_every_connection_serves(shared_vela, session)
