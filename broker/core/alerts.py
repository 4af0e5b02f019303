"""Define what alert rules measure, and decide when alerts fire and clear. A round is one check of all rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

__all__ = [
    "ATTEMPTS_MOST",
    "SUBJECTS_MOST",
    "Alert",
    "Match",
    "Measure",
    "Severity",
    "Subject",
    "may_notify",
    "next_alert",
    "next_alerts",
    "retry_after_s",
]

SUBJECTS_MOST: Final = 200
ATTEMPTS_MOST: Final = 8  # Attempts to send one notification
_LONGEST_GAP_MS: Final = 60_000
_NOTIFY_EVERY_MS: Final = 15_000
_FIRST_RETRY_S: Final = 15
_LONGEST_RETRY_S: Final = 3600


class Measure(StrEnum):
    """The value or state that a rule watches."""

    BACKLOG = "backlog"
    AGE = "age"  # Age of the oldest unacked message
    STUCK = "stuck"
    BEHIND = "behind"  # The subscription is stuck or falls behind
    NO_CONSUMER = "no_consumer"
    DEAD_LETTERS = "dead_letters"  # New messages in a dead-letter topic
    REDELIVERIES = "redeliveries"
    STORED = "stored"
    BROKER = "broker"  # No broker has reported for some seconds

    @property
    def unit(self) -> str:
        """The unit of the limit, or an empty string if the measure has no limit."""
        return _UNITS.get(self, "")

    @property
    def subject(self) -> str:
        """The kind of object that the rule watches."""
        if self is Measure.BROKER:
            return "broker"
        return "topic" if self in (Measure.DEAD_LETTERS, Measure.STORED) else "subscription"


_UNITS: Final = {
    Measure.BACKLOG: "messages",
    Measure.AGE: "ms",
    Measure.DEAD_LETTERS: "messages",
    Measure.REDELIVERIES: "per second",
    Measure.STORED: "bytes",
}


class Severity(StrEnum):
    """How serious an alert is."""

    CRITICAL = "critical"
    WARNING = "warning"
    NOTICE = "notice"


class Subject(NamedTuple):
    """A subscription, a topic or the broker. An id that does not apply is 0."""

    topic_id: int
    subscription_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A subject that is over the limit, or in the state that the rule watches."""

    subject: Subject
    value: int
    since_ms: int  # Start of the match, or the time of this round if the start is unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert of one rule for one subject."""

    subject: Subject
    value: int  # Latest value that was over the limit
    over_since_ms: int
    fired_ms: int | None = None
    below_since_ms: int | None = None
    cleared_ms: int | None = None
    is_told: bool = False  # A notification has reported that the alert fired
    id: int | None = None  # None until the alert is stored


def next_alerts(
    alerts: Collection[Alert],
    matches: Mapping[Subject, Match],
    *,
    for_ms: int,
    now_ms: int,
    last_round_ms: int | None,
) -> list[tuple[Alert | None, Alert | None]]:
    """Return a pair for each alert of one rule: the alert before this round, and the alert after this round.

    `alerts` are the alerts that have not cleared. The first item of a pair is None for a new alert. The second item is
    None for an alert that ends without firing. If `matches` has SUBJECTS_MOST items, alerts without a match are left
    out, because `matches` may be incomplete.
    """
    is_full = len(matches) >= SUBJECTS_MOST
    was_away = last_round_ms is None or now_ms - last_round_ms > _LONGEST_GAP_MS
    changes: list[tuple[Alert | None, Alert | None]] = []
    for alert in alerts:
        match = matches.get(alert.subject)
        if match is None and is_full:
            continue
        changes.append((alert, next_alert(alert, match, for_ms=for_ms, now_ms=now_ms, was_away=was_away)))
    known = {alert.subject for alert in alerts}
    changes.extend(
        (None, next_alert(None, match, for_ms=for_ms, now_ms=now_ms))
        for match in matches.values()
        if match.subject not in known
    )
    return changes


def next_alert(
    alert: Alert | None, match: Match | None, *, for_ms: int, now_ms: int, was_away: bool = False
) -> Alert | None:
    """Return the alert after this round, or None if there is no match and the alert has not fired.

    `was_away` means that no round has run for some time.
    """
    if match is None:
        if alert is None or alert.fired_ms is None:
            return None
        below_since_ms = now_ms if alert.below_since_ms is None or was_away else alert.below_since_ms
        cleared_ms = now_ms if now_ms - below_since_ms >= for_ms else None
        return replace(alert, below_since_ms=below_since_ms, cleared_ms=cleared_ms)
    since_ms = min(match.since_ms, now_ms)
    if alert is None:
        alert = Alert(subject=match.subject, value=match.value, over_since_ms=since_ms)
    elif not (was_away and alert.fired_ms is None):
        since_ms = min(since_ms, alert.over_since_ms)
    fired_ms = alert.fired_ms
    if fired_ms is None and now_ms - since_ms >= for_ms:
        fired_ms = now_ms
    return replace(alert, value=match.value, over_since_ms=since_ms, fired_ms=fired_ms, below_since_ms=None)


def may_notify(*, now_ms: int, silent_until_ms: int | None, notified_ms: int | None) -> bool:
    """Return whether a rule may send a notification now."""
    if silent_until_ms is not None and now_ms < silent_until_ms:
        return False
    return notified_ms is None or now_ms - notified_ms >= _NOTIFY_EVERY_MS


def retry_after_s(attempts: int) -> int:
    """Return the seconds to wait after this many failed attempts."""
    return int(min(_FIRST_RETRY_S * 2 ** max(attempts - 1, 0), _LONGEST_RETRY_S))
