"""Policies set on pages without scripts, on a whole Vela: a namespace is created, and its retention frees messages."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import psycopg
import pulsar
import pytest

from tests.support.api import act, ask, create_topic
from tests.support.console import ConsoleSession
from tests.support.vela import ADMIN_PASSWORD, VelaProcess
from tests.support.waiting import wait_until

NAMESPACE = "paged/orders"
TOPIC = f"persistent://{NAMESPACE}/kept"


def stored_entries(vela: VelaProcess) -> int:
    with psycopg.connect(vela.database_url) as connection:
        row = connection.execute(
            "SELECT coalesce(sum(l.entries), 0) FROM vela_ledger l JOIN vela_topic t ON t.id = l.topic_id"
            " WHERE t.name = %s AND l.state = 'sealed'",
            (TOPIC,),
        ).fetchone()
    return int(row[0]) if row else 0


def set_by_page(session: ConsoleSession, **policies: str) -> str:
    """Fill in the form, and apply its plan. Return the plan's page."""
    form = session.get(f"/n/{NAMESPACE}/policies")
    version = re.search(r'name="version" value="(\w+)"', form.text)
    assert version, form.text
    page = session.post(f"/n/{NAMESPACE}/policies", {"version": version[1], **policies})
    found = re.search(r"/acts/(\d+)", page.url)
    assert found, f"{page.status} at {page.url}: {page.text[:3000]}"
    applied = session.apply(session.act(int(found[1])))
    assert applied.state == "applied", applied.error
    return page.text


def test_retention_set_by_page_frees_what_the_plan_says(shared_vela: VelaProcess) -> None:
    session = ConsoleSession.logged_in(shared_vela)
    session.get("/namespaces/new")
    page = session.post("/namespaces/new", {"name": NAMESPACE})
    found = re.search(r"/acts/(\d+)", page.url)
    assert found, page.text[:3000]
    assert session.apply(session.act(int(found[1]))).state == "applied"
    set_by_page(session, ledger_max_entries="2", ledger_min_age_ms="0", retention_ms="7d")
    client = pulsar.Client(shared_vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    producer = client.create_producer(TOPIC, batching_enabled=False)
    for number in range(7):
        producer.send(str(number).encode())
    client.close()
    wait_until(lambda: stored_entries(shared_vela) == 6, "six entries in full ledgers")
    kept = session.get(f"/n/{NAMESPACE}").text
    assert "are kept 7 days or 1 GiB, whichever is less" in kept
    plan = set_by_page(session, retention_bytes="0")
    assert "Soon after the change, 6 messages that every subscription has acked are freed" in plan
    wait_until(lambda: stored_entries(shared_vela) == 0, "retention to free them", timeout_s=90)
    assert "Messages that every subscription has acked are not kept." in session.get(f"/n/{NAMESPACE}").text


def test_a_protected_namespace_refuses_an_act_without_a_reason_at_every_door(
    shared_vela: VelaProcess,
) -> None:
    session = ConsoleSession.logged_in(shared_vela)
    create_topic(shared_vela, "guarded/all/t")
    act(shared_vela, "set_namespace_policies", "guarded/all", set={"protected": "true"})
    with pytest.raises(AssertionError, match="namespace guarded/all is protected: give a reason"):
        shared_vela.manage("setpolicy", "guarded/all", "max_consumers=5", "--yes")
    status, planned = ask(shared_vela, "acts", {"kind": "unload", "topic": "guarded/all/t"})
    assert (status, planned["needs_reason"]) == (201, True)
    act_id = planned["id"]
    status, problem = ask(shared_vela, f"acts/{act_id}/apply", {})
    assert (status, problem["code"]) == (422, "ReasonMissing")
    page = session.post(f"/acts/{act_id}/apply", {"reason": " "})
    assert (page.status, "Give a reason: this namespace is protected." in page.text) == (422, True)
    assert session.act(act_id).state == "planned"
    status, done = ask(shared_vela, f"acts/{act_id}/apply", {"reason": "a drill"})
    assert (status, done["reason"]) == (200, "a drill")
    shared_vela.manage("setpolicy", "guarded/all", "--unset", "protected", "--yes", "--reason", "over")


def vela_as(vela: VelaProcess, name: str, password: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `vela …` as a user of the console."""
    return subprocess.run(
        [sys.executable, "-m", "vela.cli", "--console-url", vela.console_url, "--user", name, *arguments],
        env={**os.environ, "VELA_PASSWORD": password},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_one_user_plans_and_another_applies(shared_vela: VelaProcess) -> None:
    topic = "persistent://two/all/t"
    session = ConsoleSession.logged_in(shared_vela)
    create_topic(shared_vela, topic)
    act(shared_vela, "set_namespace_policies", "two/all", set={"second_person": "true"})
    given = {"name": "ben", "password": "ben-has-a-long-one", "pattern": "two/*", "role": "operator"}
    session.get("/users/new")
    assert session.post("/users/new", given).status == 200
    planned = vela_as(shared_vela, "admin", ADMIN_PASSWORD, "acts", "plan", "unload", topic, "--yes")
    assert planned.returncode == 4, planned
    found = re.search(r"act (\d+) waits for a second person", planned.stderr)
    assert found, planned
    number = found[1]
    alone = session.post(f"/acts/{number}/apply", {"reason": "alone"})
    assert (alone.status, "waits for a second person" in alone.text) == (409, True)
    applied = vela_as(shared_vela, "ben", given["password"], "acts", "apply", number, "--yes")
    assert applied.returncode == 0, applied
    assert f"applied act {number}" in applied.stdout
    shown = ask(shared_vela, f"acts/{number}")[1]
    assert (shown["state"], shown["planned_by"], shown["who"]) == ("applied", "admin", "ben")
