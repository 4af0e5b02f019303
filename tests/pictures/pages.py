"""The address of every page, by the name of its picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.pictures.company import INVOICES, LEDGER_LETTERS, ORDERS, PAYMENTS, POSITIONS, REMINDERS, REPORTS
from tests.support.api import ask
from tests.support.vela import VelaProcess

__all__ = ["IN_DOCS", "addresses"]

_FIXED: Final = {
    "login": "/login",
    "overview": "/",
    "topics": "/topics",
    "topic-new": "/topics/new",
    "dead-letters": "/dlq",
    "clients": "/consumers",
    "producers": "/producers",
    "alerts": "/alerts",
    "alert-new": "/alerts/new",
    "acts": "/acts",
    "bookmarks": "/bookmarks",
    "namespaces": "/namespaces",
    "namespace-new": "/namespaces/new",
    "namespace": "/n/shop/checkout",
    "namespace-policies": "/n/shop/checkout/policies",
    "pipeline": "/pipeline",
    "views": "/views",
    "users": "/users",
    "user": "/users/u/mira.olsen",
    "user-new": "/users/new",
    "tokens": "/tokens",
    "account": "/account",
    "second-factor": "/account/second-factor",
    "help": "/help",
    "help-page": "/help/runbook/hoarder",
    "not-found": "/t/persistent/shop/checkout/no-such-topic",
}


IN_DOCS: Final[Mapping[str, tuple[str, int]]] = {
    "console-overview": ("overview", 1000),
    "console-topics": ("topics", 760),
    "console-topic": ("topic", 1020),
    "console-subscription": ("subscription", 1060),
    "console-poison": ("subscription-poison", 1060),
    "console-message": ("message", 1240),
    "console-plan": ("plan", 920),
    "console-receipt": ("receipt", 720),
    "console-reset": ("reset", 860),
    "console-clients": ("clients", 760),
    "console-producers": ("producers", 560),
    "console-acts": ("acts", 640),
    "console-bookmarks": ("bookmarks", 420),
    "console-namespaces": ("namespaces", 480),
    "console-namespace": ("namespace", 760),
    "console-pipeline": ("pipeline", 800),
    "console-alerts": ("alerts", 1000),
    "console-users": ("users", 560),
    "console-user": ("user", 760),
    "console-tokens": ("tokens", 620),
    "console-account": ("account", 760),
    "console-views": ("views", 520),
    "console-login": ("login", 560),
    "console-help": ("help", 760),
    "console-compare": ("compare", 900),
    "console-past": ("subscription-past", 900),
    "console-job": ("job", 860),
    "dead-letters": ("dead-letter-topic", 1100),
    "messages": ("messages", 900),
}
"""The pictures in the docs: the page that each one shows, and its height in pixels."""


def addresses(vela: VelaProcess) -> Mapping[str, str]:
    """Return the address of every page by the name of its picture. Asks the Vela for ids, and plans two acts."""
    orders, payments, invoices, positions, reports, letters, reminders = (
        name.replace("://", "/")
        for name in (ORDERS, PAYMENTS, INVOICES, POSITIONS, REPORTS, LEDGER_LETTERS, REMINDERS)
    )
    mailer, renderer = f"/t/{invoices}/s/mailer", f"/t/{reports}/s/renderer"
    message = _first_unacked(vela, f"{invoices}/subscriptions/mailer")
    plan = _planned(vela, "reset", PAYMENTS, "receipts", {"to": "back_time", "back_ms": 60_000})
    large = _planned(vela, "clear", POSITIONS, "geofence", {})
    receipt = _latest(vela, "skip")
    run = _ask(vela, "pipeline/runs")["runs"]
    topic = f"/t/{invoices}"
    return {
        **_FIXED,
        "topic": f"/t/{payments}",
        "topic-partitioned": f"/t/{orders}",
        **{f"topic-{tab}": f"{topic}?tab={tab}" for tab in _TABS},
        "topic-schema": f"/t/{payments}?tab=policies",
        "topic-policies-form": f"{topic}/policies",
        "topic-past": f"/t/{payments}/past",
        "topic-delete": f"{topic}/act/delete",
        "publish": f"{topic}/act/publish",
        "bookmark-new": f"{topic}/act/bookmark",
        "subscription": renderer,
        "subscription-poison": mailer,
        "subscription-stuck": f"/t/{payments}/s/ledger",
        "subscription-behind": f"/t/{positions}/s/geofence",
        "subscription-fine": f"/t/{payments}/s/receipts",
        "subscription-partitioned": f"/t/{orders}/s/billing",
        "subscription-delayed": f"/t/{reminders}/s/sender",
        "subscription-past": f"/t/{payments}/s/receipts/past",
        "rewind": f"{mailer}/act/rewind",
        "reset": f"{mailer}/act/reset",
        "skip": f"{mailer}/act/skip",
        "clear": f"{mailer}/act/clear",
        "redrive": f"/t/{letters}/s/desk/act/redrive",
        "plan": f"/acts/{plan}",
        "plan-large": f"/acts/{large}",
        "receipt": f"/acts/{receipt}",
        "messages": f"/t/{invoices}/messages?sub=mailer&start=oldest",
        "messages-found": f"/t/{payments}/messages?start=oldest&text=acc-1007",
        "follow": f"/t/{payments}/messages/follow",
        "message": f"/t/{invoices}/m/{message}",
        "compare": f"/t/{invoices}/messages/compare?a={_first(vela, invoices)}&b={message}",
        "message-again": f"/t/{invoices}/m/{message}/again",
        "dead-letter-topic": f"/dlq/{letters}",
        "alert": f"/alerts/{_ask(vela, 'alerts/rules')['rules'][0]['id']}",
        "job": f"/pipeline/jobs/replay?topic={invoices}",
        **({"run": f"/pipeline/runs/{run[0]['id']}"} if run else {}),
    }


_TABS: Final = (
    "subscriptions",
    "producers",
    "pulls",
    "ledgers",
    "policies",
    "compaction",
    "bookmarks",
    "insights",
)


def _first_unacked(vela: VelaProcess, subscription: str) -> str:
    return str(_ask(vela, f"topics/{subscription}/peek?limit=1")["messages"][0]["id"])


def _first(vela: VelaProcess, topic: str) -> str:
    return str(_ask(vela, f"topics/{topic}/messages?start=oldest&limit=1")["messages"][0]["id"])


def _latest(vela: VelaProcess, kind: str) -> int:
    return int(_ask(vela, f"acts?kind={kind}")["acts"][0]["id"])


def _planned(
    vela: VelaProcess, kind: str, topic: str, subscription: str, parameters: dict[str, object]
) -> int:
    status, answer = ask(
        vela, "acts", {"kind": kind, "topic": topic, "subscription": subscription, "parameters": parameters}
    )
    assert status == 201, answer
    return int(answer["id"])


def _ask(vela: VelaProcess, path: str) -> dict[str, Any]:
    status, answer = ask(vela, path)
    assert status == 200, answer
    return answer
