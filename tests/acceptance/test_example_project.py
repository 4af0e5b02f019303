"""docs/examples/shop: a user's Django project with Vela in it, used as its README says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from config.environment import PROJECT_DIR
from config.run.postgres.server import PostgresServer
from tests.support.ports import free_ports
from tests.support.postgres import fresh_database
from tests.support.waiting import wait_until

SHOP = PROJECT_DIR / "docs" / "examples" / "shop"


@pytest.fixture(scope="module")
def migrated_shop(postgres: PostgresServer) -> Iterator[str]:
    """The name of a database with the shop's tables, which each test copies."""
    name = "migrated_shop"
    with fresh_database(postgres.url, name) as url:
        run(environment_with(url), "migrate", "--verbosity", "0")
        yield name


@pytest.fixture
def shop(postgres: PostgresServer, migrated_shop: str) -> Iterator[dict[str, str]]:
    """The environment variables of the shop's commands. They name a migrated database."""
    with fresh_database(postgres.url, "shop", template=migrated_shop) as url:
        http_port, pulsar_port = free_ports(2)
        yield {
            **environment_with(url),
            "VELA_HTTP_PORT": str(http_port),
            "VELA_PULSAR_PORT": str(pulsar_port),
        }


def environment_with(database_url: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT_DIR), "DATABASE_URL": database_url}


def run(environment: dict[str, str], *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=SHOP,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def started(environment: dict[str, str], log: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, "manage.py", *command], cwd=SHOP, env=environment, stdout=output, stderr=output
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            assert process.wait(20) in (0, -9), log.read_text()


def invoices(environment: dict[str, str]) -> int:
    with psycopg.connect(environment["DATABASE_URL"], autocommit=True) as connection:
        row = connection.execute("SELECT count(*) FROM orders_invoice").fetchone()
    assert row is not None
    return int(row[0])


def test_orders_become_invoices_even_if_a_worker_dies(shop: dict[str, str], tmp_path: Path) -> None:
    with started(shop, tmp_path / "broker.log", "runbroker"):
        with started(shop, tmp_path / "worker.log", "runhandlers") as worker:
            run(shop, "placeorder", "tea", "3")
            wait_until(lambda: invoices(shop) == 1, "the first invoice", timeout_s=30)
            worker.kill()
        run(shop, "placeorder", "coffee", "2")
        refused = subprocess.run(
            [sys.executable, "manage.py", "placeorder", "salt", "101"],
            cwd=SHOP,
            env=shop,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert refused.returncode == 1
        assert "sold out" in refused.stderr
        with started(shop, tmp_path / "worker.log", "runhandlers", "orders.handlers.write_invoice"):
            wait_until(lambda: invoices(shop) == 2, "the second invoice", timeout_s=30)
    log = (tmp_path / "worker.log").read_text()
    assert "orders.handlers.write_invoice" in log


def test_an_unknown_handler_is_named(shop: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "runhandlers", "orders.handlers.nosuch"],
        cwd=SHOP,
        env=shop,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "orders.handlers.write_invoice" in done.stderr


def test_the_shops_own_tests_pass(shop: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=SHOP,
        env=shop,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_shop_serves_the_console_under_one_of_its_addresses(shop: dict[str, str]) -> None:
    code = (
        "from django.test import Client; answer = Client().get('/vela/topics');"
        " print(answer.status_code, answer['Location'])"
    )
    assert run(shop, "shell", "--verbosity", "0", "-c", code).strip() == "302 /vela/login?next=/vela/topics"


def test_a_superuser_of_the_shop_sees_the_consoles_pages_and_api(shop: dict[str, str]) -> None:
    code = (
        "from django.contrib.auth import get_user_model; from django.test import Client; client = Client();"
        " client.force_login(get_user_model().objects.create_superuser('ada'));"
        " print([client.get(f'/vela/{page}').status_code for page in ('', 'topics', 'help', 'api/v1/topics')])"
    )
    assert run(shop, "shell", "--verbosity", "0", "-c", code).strip() == "[200, 200, 200, 200]"
