"""Start a console in a separate process over the tests' database, and open a user's window on it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.request import urlopen

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from playwright.sync_api import Browser, Page

from config.environment import PROJECT_DIR
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

__all__ = ["StartedConsole", "started_console", "window"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedConsole:
    """A console's process and its address."""

    url: str
    process: subprocess.Popen[bytes]


@contextmanager
def started_console() -> Iterator[StartedConsole]:
    """Start a console over the tests' database. It reads committed rows only, so tests need `transaction=True`."""
    port = free_ports(1)[0]
    at = connection.settings_dict
    process = subprocess.Popen(
        [sys.executable, "manage.py", "runconsole", "--bind", "127.0.0.1", "--port", str(port)],
        cwd=PROJECT_DIR,
        env={
            **os.environ,
            "VELA_SECRET_KEY": settings.SECRET_KEY,  # the tests and the console must read the same sessions
            "DATABASE_URL": f"postgresql://{at['USER']}:{at['PASSWORD']}@{at['HOST']}:{at['PORT']}/{at['NAME']}",
        },
    )
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            with urlopen(f"{url}/healthz", timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    try:
        wait_until(answers, "the console", timeout_s=60)
        yield StartedConsole(url=url, process=process)
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def window(browser: Browser, url: str) -> Iterator[Page]:
    """Open an empty window of a logged-in operator. At the end, wait until the console's queries have ended."""
    person = Client()
    person.force_login(User.objects.create_user("ada", is_superuser=True))
    context = browser.new_context(base_url=url)
    context.set_default_timeout(30_000)
    context.add_cookies([{"name": "sessionid", "value": person.cookies["sessionid"].value, "url": url}])
    try:
        yield context.new_page()
    finally:
        context.close()
        wait_until(_is_database_idle, "the console's last query")  # next, the tables are emptied


def _is_database_idle() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND state <> 'idle')"
        )
        return bool(cursor.fetchone() == (True,))
