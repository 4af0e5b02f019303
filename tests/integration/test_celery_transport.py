"""Celery's queue in PostgreSQL: each message is taken once, one at a time, and wakes a worker that waits for it."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg
import pytest
from celery import Celery
from kombu.connection import Connection

from broker.storage.queries import query
from config import celery_transport
from config.celery_transport import Channel, broker_url
from config.environment import PROJECT_DIR, ProjectSettings
from config.run.children.lifeline import dies_with_parent
from tests.support.waiting import wait_until

# Forces a plan that a server without statistics may choose: it runs the subquery for each row of the outer table.
PLAIN_LOOPS = " ".join(
    f"-c enable_{each}=off"
    for each in ("hashjoin", "mergejoin", "material", "hashagg", "indexscan", "bitmapscan", "sort")
)

PATIENCE_S = 20.0  # on a busy machine


def kombu_connection(database_url: str) -> Connection:
    address = broker_url(ProjectSettings.from_environment({"DATABASE_URL": database_url}))
    return Connection(address)  # type: ignore[no-untyped-call]


@contextmanager
def consumer(database_url: str, taken: list[Any], *, at_once: int = 0) -> Iterator[Any]:
    """Open a connection that appends messages of the queue `work` to `taken`. It has found the queue empty once."""
    with kombu_connection(database_url) as celery:
        queue = celery.SimpleQueue("work")
        channel = queue.consumer.channel
        channel.basic_qos(0, at_once, False)
        queue.consumer.callbacks = [lambda _body, message: taken.append(message)]
        queue.consumer.consume()
        with pytest.raises(TimeoutError):
            celery.drain_events(timeout=0)
        yield celery
        queue.close()


@pytest.mark.parametrize("options", ["", PLAIN_LOOPS])
def test_messages_are_taken_one_by_one_and_in_order(database_url: str, options: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        for setting in options.replace("-c ", "").split():
            name, _, value = setting.partition("=")
            connection.execute(f"ALTER DATABASE {connection.info.dbname} SET {name} = {value}".encode())
    with kombu_connection(database_url) as celery:
        queue = celery.SimpleQueue("work")
        for number in range(6):
            queue.put({"number": number})
        taken = []
        for _ in range(6):
            message = queue.get(timeout=5)
            message.ack()
            taken.append(message.payload["number"])
        assert taken == list(range(6))
        with pytest.raises(queue.Empty):
            queue.get(block=False)
        queue.close()


def test_a_worker_and_the_server_notice_a_lost_connection(database_url: str) -> None:
    with kombu_connection(database_url) as celery:
        session = celery.default_channel.session
        assert session.execute("SHOW tcp_user_timeout").fetchone() == ("15000",)
        assert session.info.get_parameters()["keepalives_idle"] == "5"


def test_a_channel_whose_messages_cannot_be_put_back_closes_its_connection(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_channel: object) -> None:
        raise psycopg.OperationalError("the database is unavailable")

    with kombu_connection(database_url) as celery:
        channel = celery.default_channel
        session = channel.session
        with monkeypatch.context() as patch:
            patch.setattr(Channel.__base__, "close", fail)
            with pytest.raises(psycopg.OperationalError):
                channel.close()
        assert session.closed


def test_a_message_wakes_a_worker_that_waits(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the notification can wake the worker: it does not poll here, and it would wait longer than the test."""
    monkeypatch.setattr(celery_transport, "_LOOK_EVERY_S", math.inf)
    monkeypatch.setattr(celery_transport.Transport, "patience_s", 2 * PATIENCE_S)
    taken: list[Any] = []
    with kombu_connection(database_url) as sender, consumer(database_url, taken) as celery:
        queue = sender.SimpleQueue("work")
        started = threading.Timer(0.2, queue.put, args=({"number": 1},))
        started.start()
        celery.drain_events(timeout=PATIENCE_S)
        assert [message.payload["number"] for message in taken] == [1]
        started.join()
        queue.put({"number": 2})  # no worker waits at this moment
        celery.drain_events(timeout=PATIENCE_S)
        assert [message.payload["number"] for message in taken] == [1, 2]


def test_messages_that_come_together_are_all_taken(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that looks for messages also reads notifications of later messages. These cannot wake it any more."""
    monkeypatch.setattr(celery_transport, "_LOOK_EVERY_S", math.inf)
    taken: list[Any] = []
    with kombu_connection(database_url) as sender, consumer(database_url, taken) as celery:
        queue = sender.SimpleQueue("work")
        for number in range(20):
            queue.put({"number": number})
            if number % 3:
                celery.drain_events(timeout=PATIENCE_S)
        while len(taken) < 20:
            celery.drain_events(timeout=PATIENCE_S)
        assert [message.payload["number"] for message in taken] == list(range(20))
        with pytest.raises(TimeoutError):
            celery.drain_events(timeout=0)


def test_a_message_without_a_notification_is_found(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is killed while it takes a message puts it back without a notification."""
    taken: list[Any] = []
    monkeypatch.setattr(celery_transport, "_LOOK_EVERY_S", math.inf)
    with (
        kombu_connection(database_url) as sender,
        consumer(database_url, taken) as celery,
        closing(psycopg.connect(database_url)) as killed,
    ):
        sender.SimpleQueue("work").put({"number": 1})
        assert killed.execute(query("celery", "take"), {"queue": "work"}).fetchone() is not None
        with pytest.raises(TimeoutError):
            celery.drain_events(timeout=0)  # the worker is notified, but the message is still locked
        killed.close()
        with pytest.raises(TimeoutError):
            celery.drain_events(timeout=0)  # no notification says that the message is back
        monkeypatch.setattr(celery_transport, "_LOOK_EVERY_S", 0.0)
        wait_until(lambda: drained(celery) and taken, "the message", timeout_s=PATIENCE_S)
        assert [message.payload["number"] for message in taken] == [1]


def drained(celery: Any) -> bool:
    """Make the connection look for messages once. Return True, so that a condition can call it."""
    with suppress(TimeoutError):
        celery.drain_events(timeout=0)
    return True


def test_a_worker_whose_tasks_are_all_under_way_takes_no_more_until_one_ends(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(celery_transport, "_LOOK_EVERY_S", math.inf)
    taken: list[Any] = []
    with kombu_connection(database_url) as sender, consumer(database_url, taken, at_once=1) as celery:
        queue = sender.SimpleQueue("work")
        queue.put({"number": 1})
        queue.put({"number": 2})
        celery.drain_events(timeout=PATIENCE_S)
        with pytest.raises(TimeoutError):
            celery.drain_events(timeout=0.3)
        taken[0].ack()
        celery.drain_events(timeout=PATIENCE_S)
        assert [message.payload["number"] for message in taken] == [1, 2]


@contextmanager
def tick_worker(database_url: str) -> Iterator[subprocess.Popen[bytes]]:
    """The worker of the ticks, as `make run` starts it."""
    with subprocess.Popen(
        [sys.executable, "-m", "config.run.celery_part", "tick"],
        cwd=PROJECT_DIR,
        env={**os.environ, "DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "config.settings"},
        preexec_fn=dies_with_parent(signal.SIGKILL),
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def send_tick(database_url: str) -> None:
    app = Celery("test", broker=broker_url(ProjectSettings.from_environment({"DATABASE_URL": database_url})))
    app.send_task("broker.upkeep.tasks.tick", queue="tick", retry=True)


def ticked_at(operator: psycopg.Connection[tuple[Any, ...]]) -> Any:
    """Return the time at which a tick last ran, or None if none has."""
    row = operator.execute("SELECT at FROM vela_heartbeat WHERE name = 'worker'").fetchone()
    return row and row[0]


def test_ticks_run_again_after_the_worker_or_its_sessions_were_killed(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as operator:
        send_tick(database_url)
        with tick_worker(database_url) as worker:
            first = wait_until(lambda: ticked_at(operator), "the first tick", timeout_s=PATIENCE_S)
            ended = operator.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name LIKE 'vela %'"
            ).fetchall()
            assert len(ended) >= 2, "one session for the queue and one for the tasks"
            send_tick(database_url)
            wait_until(lambda: ticked_at(operator) > first, "a tick in new sessions", timeout_s=PATIENCE_S)
            assert worker.poll() is None
            worker.kill()
            worker.wait()
        second = ticked_at(operator)
        send_tick(database_url)
        with tick_worker(database_url):
            wait_until(lambda: ticked_at(operator) > second, "a tick of another worker", timeout_s=PATIENCE_S)
