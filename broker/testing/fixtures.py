"""pytest fixtures. Your project must install pytest-django."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.utils.module_loading import autodiscover_modules

from broker.core.topic_name import TopicName
from broker.handlers.message import Message, moment
from broker.handlers.registry import registered
from broker.models import Outbox
from vela.wire.entry import decode_messages

__all__ = ["LiveBroker", "handle_published", "published", "vela_broker"]

START_TIMEOUT_S = 30.0
_MOST_BYTES = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBroker:
    """A broker on the test database."""

    http_url: str
    pulsar_url: str


@pytest.fixture
def published(db: None) -> Callable[[str | None], list[Message]]:
    """`published()` returns all messages in the outbox, in order. `published("orders")` returns those of one topic."""

    def look(topic: str | None = None) -> list[Message]:
        rows = Outbox.objects.order_by("id")
        if topic is not None:
            rows = rows.filter(topic=TopicName.parse(topic).full)
        return [_message(row) for row in rows]

    return look


@pytest.fixture
def handle_published(db: None) -> Callable[[], int]:
    """`handle_published()` calls the handlers with all published messages, and returns the number of calls.

    Messages that handlers publish are handled too. An exception in a handler reaches the test.
    """

    def handle() -> int:
        autodiscover_modules("handlers")
        calls = 0
        while (row := Outbox.objects.order_by("id").first()) is not None:
            message = _message(row)
            row.delete()
            for each in registered().values():
                if each.topic.full != message.topic:
                    continue
                calls += 1
                if each.is_async:
                    asyncio.run(cast(Any, each.function(message)))
                elif each.atomic:
                    with transaction.atomic():
                        each.function(message)
                else:
                    each.function(message)
        return calls

    return handle


@pytest.fixture(scope="session")
def vela_broker(django_db_setup: None, django_db_blocker: Any) -> Iterator[LiveBroker]:
    """Run a broker on the test database. Tests need `django_db(transaction=True)`."""
    http_port, pulsar_port = _free_ports(2)
    environment = os.environ | {
        "VELA_HTTP_PORT": str(http_port),
        "VELA_PULSAR_PORT": str(pulsar_port),
        "VELA_DATABASE_NAME": str(connection.settings_dict["NAME"]),
    }
    command = [sys.executable, str(Path(settings.BASE_DIR) / "manage.py"), "runbroker"]
    with subprocess.Popen(command, cwd=settings.BASE_DIR, env=environment) as process:  # noqa: S603 - this project's manage.py
        try:
            _until_ready(process, http_port)
            yield LiveBroker(
                http_url=f"http://127.0.0.1:{http_port}", pulsar_url=f"pulsar://127.0.0.1:{pulsar_port}"
            )
        finally:
            process.terminate()
            process.wait(START_TIMEOUT_S)


def _message(row: Outbox) -> Message:
    (found,) = decode_messages(bytes(row.data), max_message_bytes=_MOST_BYTES)
    return Message(
        topic=row.topic,
        message_id=f"outbox:{row.pk}",
        payload=found.payload,
        key=found.key or None,
        properties=found.properties,
        publish_time=moment(found.publish_time_ms),
        event_time=moment(found.event_time_ms),
    )


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    until_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < until_s:
        if process.poll() is not None:
            raise RuntimeError(f"runbroker exited with {process.returncode}; see its output")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"runbroker was not ready within {START_TIMEOUT_S:g} s")
