"""Alerts in PostgreSQL, for Celery's tasks. A round is one evaluation of the alert rules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from psycopg.rows import class_row

from broker.core.alerts import SUBJECTS_MOST, Alert, Match, Subject
from broker.storage.queries import query
from broker.storage.short_connection import ShortConnection
from broker.storage.task_connection import task_connection

__all__ = [
    "AlertRound",
    "Found",
    "Notification",
    "OpenAlert",
    "StoredRule",
    "alert_round",
    "claim",
    "failed",
    "match_parameters",
    "sent",
    "trim",
]

# A rule about message age reads at most this many cursors.
_LOOKED_AT = 2000
_STATEMENT_TIMEOUT_MS = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRule:
    """An alert rule without the addresses that it notifies."""

    id: int
    name: str
    measure: str
    threshold: int | None
    within_ms: int | None
    for_ms: int
    namespaces: str
    topics: str
    subscriptions: str
    severity: str
    has_webhook: bool
    has_email: bool
    silent_until_ms: int | None
    evaluated_ms: int | None
    notified_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A match of a rule: a subscription, a topic or the broker."""

    rule_id: int
    topic_id: int
    subscription_id: int
    namespace_id: int | None
    topic_name: str
    subscription_name: str
    value: int
    since_ms: int

    @property
    def match(self) -> Match:
        """The subject, value and start time as a `Match`."""
        return Match(
            subject=Subject(self.topic_id, self.subscription_id), value=self.value, since_ms=self.since_ms
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAlert:
    """An alert that is waiting to fire, is firing, or has cleared but is not yet reported as cleared."""

    rule_id: int
    topic_name: str
    subscription_name: str
    alert: Alert


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A notification to send now."""

    id: int
    channel: str
    body: Mapping[str, Any]
    attempts: int  # Includes this attempt
    webhook_url: str
    email: str


def match_parameters(rules: Iterable[Mapping[str, object]], now_ms: int) -> dict[str, Any]:
    """Return the parameters of the query named `matches`."""
    return {
        "rules": json.dumps([dict(rule) for rule in rules]),
        "now_ms": now_ms,
        "limit": SUBJECTS_MOST,
        "looked_at": _LOOKED_AT,
    }


class AlertRound:
    """The statements of one round, in one transaction."""

    __slots__ = ("_connection",)

    def __init__(self, connection: ShortConnection) -> None:
        self._connection = connection

    def rules(self) -> list[StoredRule]:
        """Return all rules."""
        with self._connection.cursor(row_factory=class_row(StoredRule)) as cursor:
            return cursor.execute(query("alerts", "rules")).fetchall()

    def found(self, rules: Iterable[Mapping[str, object]], now_ms: int) -> list[Found]:
        """Return at most SUBJECTS_MOST matches for each rule."""
        with self._connection.cursor(row_factory=class_row(Found)) as cursor:
            return cursor.execute(query("alerts", "matches"), match_parameters(rules, now_ms)).fetchall()

    def open(self, now_ms: int) -> list[OpenAlert]:
        """Return all open alerts, except those that cleared more than a day ago."""
        rows = self._connection.execute(query("alerts", "open"), {"now_ms": now_ms}).fetchall()
        return [
            OpenAlert(
                rule_id=rule_id,
                topic_name=topic_name,
                subscription_name=subscription_name,
                alert=Alert(
                    id=id_,
                    subject=Subject(topic_id, subscription_id),
                    value=value,
                    over_since_ms=over,
                    fired_ms=fired,
                    below_since_ms=below,
                    cleared_ms=cleared,
                    is_told=is_told,
                ),
            )
            for (
                id_,
                rule_id,
                topic_id,
                subscription_id,
                topic_name,
                subscription_name,
                value,
                over,
                fired,
                below,
                cleared,
                is_told,
            ) in rows
        ]

    def insert(self, rows: list[dict[str, object]]) -> None:
        """Store new alerts."""
        self._connection.execute(query("alerts", "insert"), {"rows": json.dumps(rows)})

    def update(self, rows: list[dict[str, object]]) -> None:
        """Store changed alerts."""
        self._connection.execute(query("alerts", "update"), {"rows": json.dumps(rows)})

    def delete(self, ids: list[int]) -> None:
        """Delete these alerts, except those that have fired."""
        self._connection.execute(query("alerts", "delete"), {"ids": ids})

    def notify(self, rows: list[dict[str, object]]) -> None:
        """Store notifications to send."""
        self._connection.execute(query("alerts", "notify"), {"rows": json.dumps(rows)})

    def evaluated(self, ids: list[int], *, notified: list[int], now_ms: int) -> None:
        """Record which rules were evaluated, and which of them have new notifications."""
        self._connection.execute(
            query("alerts", "evaluated"), {"ids": ids, "notified": notified, "now_ms": now_ms}
        )


def _connect() -> AbstractContextManager[ShortConnection]:
    return task_connection("vela alerts", statement_timeout_ms=_STATEMENT_TIMEOUT_MS)


@contextmanager
def alert_round() -> Iterator[AlertRound | None]:
    """Run a round in one transaction, or yield None if another process is running a round."""
    with _connect() as connection, connection.transaction():
        row = connection.execute(query("alerts", "lock")).fetchone()
        yield AlertRound(connection) if row and row[0] else None


def claim(*, lease_s: int) -> Notification | None:
    """Claim a notification to send, or return None.

    If neither `sent` nor `failed` is called, the notification can be claimed again after `lease_s`.
    """
    with (
        _connect() as connection,
        connection.cursor(row_factory=class_row(Notification)) as cursor,
    ):
        return cursor.execute(query("alerts", "claim"), {"lease_s": lease_s}).fetchone()


def sent(notification_id: int) -> None:
    """Record that a notification was delivered."""
    with _connect() as connection:
        connection.execute(query("alerts", "sent"), {"id": notification_id})


def failed(notification_id: int, error: str, *, retry_s: int | None) -> None:
    """Record a failed attempt. If `retry_s` is None, there is no further attempt."""
    with _connect() as connection:
        parameters = {"id": notification_id, "error": error.replace("\0", "\ufffd")[:500], "retry_s": retry_s}
        connection.execute(query("alerts", "failed"), parameters)


def trim(before_ms: int) -> int:
    """Delete at most 1,000 old alerts and 1,000 old notifications. Return how many were deleted. Safe to repeat."""
    with _connect() as connection:
        names = ("trim_firings", "trim_notifications")
        return sum(
            connection.execute(query("alerts", name), {"before_ms": before_ms}).rowcount for name in names
        )
