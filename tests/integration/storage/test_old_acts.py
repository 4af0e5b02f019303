"""Unused plans expire. The act log is pruned by age, except for acts that wait, run or can be undone."""

from __future__ import annotations

import psycopg
import pytest

from broker.storage.log import sweep
from tests.support.broker_harness import one_row, rows


@pytest.fixture
def url(broker_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The database that the sweep works on."""
    monkeypatch.setattr("broker.storage.short_connection.conninfo", lambda: broker_url)
    return broker_url


def an_act(
    url: str,
    state: str,
    age_s: int,
    *,
    undo_s: int | None = None,
    undo_of: int | None = None,
    origin: str = "o",
) -> int:
    """Insert an act that is `age_s` old and can be undone for another `undo_s`, and return its id."""
    (act_id,) = one_row(
        url,
        "INSERT INTO vela_act (kind, state, topic_name, subscription_name, parameters, error, who, origin, reason,"
        " created_at, requested_at, finished_at, undo_until, undo_of_id)"
        " SELECT 'clear', %s, 't', 's', '{}', '', 'o', %s, '', past, past, past,"
        " now() + make_interval(secs => %s), %s FROM (SELECT now() - make_interval(secs => %s) AS past) t RETURNING id",
        state,
        origin,
        undo_s,
        undo_of,
        age_s,
    )
    return int(act_id)


def test_an_unapplied_plan_expires(url: str) -> None:
    old, young = an_act(url, "planned", 100), an_act(url, "planned", 10)
    done, waiting = an_act(url, "applied", 100), an_act(url, "apply_requested", 100)
    assert sweep.expire_plans(60, second_person_s=3600) == 1
    assert sweep.expire_plans(60, second_person_s=3600) == 0
    states = dict(rows(url, "SELECT id, state FROM vela_act"))
    assert states == {old: "expired", young: "planned", done: "applied", waiting: "apply_requested"}
    assert one_row(url, "SELECT error_code FROM vela_act WHERE id = %s", old) == ("ActExpired",)


def test_old_acts_are_deleted_unless_something_needs_them(url: str) -> None:
    day = 24 * 3600
    an_act(url, "applied", 3 * day)
    an_act(url, "refused", 3 * day)
    an_act(url, "applied", 3 * day, undo_s=-1)
    undone = an_act(url, "applied", 3 * day, undo_s=-1)
    kept = [
        an_act(url, "applied", 3 * day, undo_s=60),
        an_act(url, "applied", day, undo_of=undone),
        an_act(url, "apply_requested", 3 * day),
        an_act(url, "applying", 3 * day),
        an_act(url, "planned", 3 * day),
    ]
    assert sweep.trim_acts(2) == 4
    assert sweep.trim_acts(2) == 0
    assert [act_id for (act_id,) in rows(url, "SELECT id FROM vela_act ORDER BY id")] == kept
    assert one_row(url, "SELECT undo_of_id FROM vela_act WHERE id = %s", kept[1]) == (None,)


def test_only_the_latest_acts_of_clients_stay(url: str) -> None:
    operators = an_act(url, "applied", 10)
    clients = [an_act(url, "applied", 10, undo_s=60, origin="client 127.0.0.1:5") for _ in range(5)]
    running = an_act(url, "client", 10, origin="client 127.0.0.1:5")
    assert sweep.trim_client_acts(3) == 3
    assert sweep.trim_client_acts(3) == 0
    left = [act_id for (act_id,) in rows(url, "SELECT id FROM vela_act ORDER BY id")]
    assert left == [operators, *clients[3:], running]


def test_the_latest_move_of_a_cursor_stays_because_an_earlier_one_must_not_be_undone(url: str) -> None:
    (subscription_id,) = one_row(
        url,
        "WITH t AS (INSERT INTO vela_tenant (name, created_at) VALUES ('a', now()) RETURNING id), n AS ("
        " INSERT INTO vela_namespace (tenant_id, name, policies, created_at) SELECT id, 'b', '{}', now() FROM t"
        " RETURNING id), p AS (INSERT INTO vela_topic (namespace_id, name, partitions, partition, properties,"
        " policies, created_at) SELECT id, 't', 0, -1, '{}', '{}', now() FROM n RETURNING id)"
        " INSERT INTO vela_subscription (topic_id, name, type, properties, created_at)"
        " SELECT id, 's', 'Shared', '{}', now() FROM p RETURNING id",
    )
    skip = an_act(url, "applied", 30, undo_s=3600)
    seeks = [an_act(url, "applied", age_s, origin="client 127.0.0.1:5") for age_s in (20, 10)]
    newer = [an_act(url, "applied", 5, origin="client 127.0.0.1:6") for _ in range(2)]
    rows(
        url,
        "UPDATE vela_act SET subscription_id = %s, cursor_before = '' WHERE id = ANY(%s)",
        subscription_id,
        [skip, *seeks],
    )
    assert sweep.trim_client_acts(1) == 2
    left = [act_id for (act_id,) in rows(url, "SELECT id FROM vela_act ORDER BY id")]
    assert left == [skip, seeks[1], newer[1]]


def test_the_acts_of_clients_are_found_by_their_index(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("SET enable_seqscan = off")
        plan = connection.execute(
            "EXPLAIN SELECT id FROM vela_act WHERE origin LIKE 'client %' ORDER BY id DESC OFFSET 3 LIMIT 1"
        ).fetchall()
    assert any("vela_act_clients" in str(line) for (line,) in plan)
