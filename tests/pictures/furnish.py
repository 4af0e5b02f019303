"""Do the work of the company's users: make users, roles, views, alerts and bookmarks, apply acts, and run a job."""

from __future__ import annotations

import base64
from typing import Any, Final

from tests.pictures.company import (
    EVENTS,
    INVOICES,
    LEDGER_LETTERS,
    ORDERS,
    PAYMENTS,
    POSITIONS,
    REMINDERS,
    REPORTS,
)
from tests.support.api import act, ask, create_topic
from tests.support.console import ConsoleSession
from tests.support.vela import VelaProcess

__all__ = ["SETTINGS", "furnish", "furnish_later", "make_topics"]

SETTINGS: Final = {"VELA_TOKEN_SECRET_KEY": base64.b64encode(b"the secret of all the pictures here").decode()}
"""With this key, Vela can make tokens. The broker requires none."""

_PEOPLE: Final = (
    ("mira.olsen", "operator", "shop/*"),
    ("tomas.novak", "reader", "fleet/telemetry"),
    ("li.wei", "admin", "*"),
    ("night.shift", "viewer", "*"),
)
_RULES: Final[tuple[dict[str, str], ...]] = (
    {"name": "Nobody reads payments", "measure": "no_consumer", "for_ms": "10s", "severity": "critical",
     "namespaces": "shop/checkout"},
    {"name": "Backlog of telemetry", "measure": "backlog", "threshold": "500", "for_ms": "10s", "severity": "warning",
     "namespaces": "fleet/*"},
    {"name": "Letters came", "measure": "dead_letters", "threshold": "5", "within_ms": "1h", "severity": "notice"},
    {"name": "A subscription is stuck", "measure": "stuck", "for_ms": "5m", "severity": "critical",
     "email": "oncall@example.org"},
)  # fmt: skip


def make_topics(vela: VelaProcess) -> None:
    """Create the company's topics, some with policies."""
    create_topic(vela, ORDERS, partitions=4)
    for topic in (PAYMENTS, INVOICES, REMINDERS, REPORTS, POSITIONS, EVENTS, LEDGER_LETTERS):
        create_topic(vela, topic)
    act(vela, "set_namespace_policies", "shop/checkout", set={"retention_ms": "7d", "delivery_story": "all"})
    act(vela, "set_topic_policies", POSITIONS, set={"retention_bytes": "20GB", "ledger_max_entries": "1000"})


def furnish(vela: VelaProcess) -> None:
    """Create people, rules, views and tokens. Passwords are never shown."""
    admin = ConsoleSession.logged_in(vela)
    for name, role, pattern in _PEOPLE:
        admin.get("/users/new")
        admin.post(
            "/users/new", {"name": name, "role": role, "pattern": pattern, "password": "", "choice": "made"}
        )
    for rule in _RULES:
        status, answer = ask(vela, "alerts/rules", rule)
        assert status == 201, answer
    for path, query, name in (
        ("/topics", "state=stuck", "stuck ones"),
        ("/topics", "ns=shop/checkout&backlog=1", "checkout with backlog"),
        ("/consumers", "flag=hoarding", "hoarders"),
    ):
        admin.get("/views")
        admin.post("/views", {"path": path, "query": query, "name": name, "share": "on"})
    for role in ("checkout", "fleet-gateway", "reporting"):
        admin.get("/tokens")
        admin.post("/tokens", {"role": role, "days": "30"})


def furnish_later(vela: VelaProcess) -> None:
    """Apply acts, once there are messages: a bookmark, a skip and its undo, a plan that waits, a job."""
    act(vela, "create_bookmark", PAYMENTS, name="before release 5.4", to="latest")
    act(vela, "create_bookmark", INVOICES, name="end of November", to="latest")
    _on(vela, "pause", REMINDERS, "sender", {})
    _on(vela, "resume", REMINDERS, "sender", {})
    skipped = _on(vela, "skip", PAYMENTS, "receipts", {"messages": 5})
    status, undo = ask(vela, f"acts/{skipped}/undo", {})
    assert status == 201, undo
    ask(vela, f"acts/{undo['id']}/apply", {"reason": "these five were wanted after all"})
    act(vela, "run_job", INVOICES, job="insights")


def _on(vela: VelaProcess, kind: str, topic: str, subscription: str, parameters: dict[str, Any]) -> int:
    status, planned = ask(
        vela, "acts", {"kind": kind, "topic": topic, "subscription": subscription, "parameters": parameters}
    )
    assert status == 201, planned
    status, done = ask(vela, f"acts/{planned['id']}/apply", {"reason": "rehearsal of the night shift"})
    assert (status, done["state"]) == (200, "applied"), done
    return int(planned["id"])
