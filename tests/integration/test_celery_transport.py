"""Celery's queue in PostgreSQL: each message is taken once, one at a time, whatever plan the server chooses."""

from __future__ import annotations

import psycopg
import pytest
from kombu.connection import Connection

from config.celery_transport import Channel, broker_url
from config.environment import ProjectSettings

# What a server without statistics may come to: the subquery run anew for each row of the outer table.
PLAIN_LOOPS = " ".join(
    f"-c enable_{each}=off"
    for each in ("hashjoin", "mergejoin", "material", "hashagg", "indexscan", "bitmapscan", "sort")
)


@pytest.mark.parametrize("options", ["", PLAIN_LOOPS])
def test_messages_are_taken_one_by_one_and_in_order(database_url: str, options: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        for setting in options.replace("-c ", "").split():
            name, _, value = setting.partition("=")
            connection.execute(f"ALTER DATABASE {connection.info.dbname} SET {name} = {value}".encode())
    with Connection(broker_url(ProjectSettings.from_environment({"DATABASE_URL": database_url}))) as celery:  # type: ignore[no-untyped-call]
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
    with Connection(broker_url(ProjectSettings.from_environment({"DATABASE_URL": database_url}))) as celery:  # type: ignore[no-untyped-call]
        session = celery.default_channel.session
        assert session.execute("SHOW tcp_user_timeout").fetchone() == ("15000",)
        assert session.info.get_parameters()["keepalives_idle"] == "5"


def test_a_channel_whose_messages_cannot_be_put_back_closes_its_connection(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_channel: object) -> None:
        raise psycopg.OperationalError("the database is away")

    with Connection(broker_url(ProjectSettings.from_environment({"DATABASE_URL": database_url}))) as celery:  # type: ignore[no-untyped-call]
        channel = celery.default_channel
        session = channel.session
        with monkeypatch.context() as patch:
            patch.setattr(Channel.__base__, "close", fail)
            with pytest.raises(psycopg.OperationalError):
                channel.close()
        assert session.closed
