"""Evaluate alert rules, fire and clear alerts, and store notifications.

The subject of an alert is the subscription, the topic or the broker that matches the rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.acts.alerts import condition, rule_columns, subject_name, value_words
from broker.core.alerts import Alert, Subject, may_notify, next_alerts
from broker.storage.alerts import AlertRound, Found, OpenAlert, StoredRule, alert_round

__all__ = ["evaluate", "notification_body"]

# A notification names at most this many firing subjects and this many cleared subjects.
_NAMED = 20


@dataclass(slots=True)
class _Changes:
    inserted: list[dict[str, object]] = field(default_factory=list)
    updated: list[dict[str, object]] = field(default_factory=list)
    deleted: list[int] = field(default_factory=list)
    notifications: list[dict[str, object]] = field(default_factory=list)
    notified: list[int] = field(default_factory=list)


def evaluate(now_ms: int) -> None:
    """Evaluate every rule once. Do nothing if another process is evaluating the rules."""
    with alert_round() as statements:
        if statements is None:
            return
        rules = statements.rules()
        if rules:
            _evaluate(statements, rules, now_ms)


def _evaluate(statements: AlertRound, rules: Sequence[StoredRule], now_ms: int) -> None:
    found: dict[int, dict[Subject, Found]] = defaultdict(dict)
    for each in statements.found([_columns(rule) for rule in rules], now_ms):
        found[each.rule_id][each.match.subject] = each
    stored: dict[int, list[OpenAlert]] = defaultdict(list)
    for alert in statements.open(now_ms):
        stored[alert.rule_id].append(alert)
    changes = _Changes()
    for rule in rules:
        _judge(rule, found[rule.id], stored[rule.id], changes, now_ms)
    if changes.inserted:
        statements.insert(changes.inserted)
    if changes.updated:
        statements.update(changes.updated)
    if changes.deleted:
        statements.delete(changes.deleted)
    if changes.notifications:
        statements.notify(changes.notifications)
    statements.evaluated([rule.id for rule in rules], notified=changes.notified, now_ms=now_ms)


def _columns(rule: StoredRule) -> dict[str, object]:
    return rule_columns(
        rule_id=rule.id,
        measure=rule.measure,
        threshold=rule.threshold,
        within_ms=rule.within_ms,
        namespaces=rule.namespaces,
        topics=rule.topics,
        subscriptions=rule.subscriptions,
    )


def _judge(
    rule: StoredRule,
    found: Mapping[Subject, Found],
    stored: Sequence[OpenAlert],
    changes: _Changes,
    now_ms: int,
) -> None:
    names = {each.alert.subject: (each.topic_name, each.subscription_name) for each in stored}
    names |= {subject: (each.topic_name, each.subscription_name) for subject, each in found.items()}
    steps = next_alerts(
        [each.alert for each in stored if each.alert.cleared_ms is None],
        {subject: each.match for subject, each in found.items()},
        for_ms=rule.for_ms,
        now_ms=now_ms,
        last_round_ms=rule.evaluated_ms,
    )
    tells = may_notify(
        now_ms=now_ms, silent_until_ms=rule.silent_until_ms, notified_ms=rule.notified_ms
    ) and (rule.has_webhook or rule.has_email)
    firing: list[Alert] = []
    cleared: list[Alert] = []
    for before, after in [*steps, *((each.alert, each.alert) for each in stored if each.alert.cleared_ms)]:
        if after is None:
            changes.deleted += [before.id] if before is not None and before.id is not None else []
            continue
        is_told = after.is_told
        is_clear_told = after.cleared_ms is not None and (tells or not after.is_told)
        if tells and after.cleared_ms is not None and after.is_told:
            cleared.append(after)
        elif tells and after.fired_ms is not None and after.cleared_ms is None and not after.is_told:
            firing.append(after)
            is_told = True
        row = _row(after, is_told=is_told)
        if before is None:
            each = found[after.subject]
            changes.inserted.append(
                row
                | {
                    "rule_id": rule.id,
                    "topic_id": each.topic_id,
                    "subscription_id": each.subscription_id,
                    "namespace_id": each.namespace_id,
                    "topic_name": each.topic_name,
                    "subscription_name": each.subscription_name,
                }
            )
        elif after != before or is_told != before.is_told or is_clear_told:
            changes.updated.append(row | {"is_clear_told": is_clear_told})
    if firing or cleared:
        body = notification_body(rule, firing, cleared, names, now_ms)
        channels = [("webhook", rule.has_webhook), ("email", rule.has_email)]
        changes.notifications += [
            {"rule_id": rule.id, "channel": channel, "body": body} for channel, is_set in channels if is_set
        ]
        changes.notified.append(rule.id)


def _row(alert: Alert, *, is_told: bool) -> dict[str, object]:
    return {
        "id": alert.id,
        "value": alert.value,
        "over_since_ms": alert.over_since_ms,
        "fired_ms": alert.fired_ms,
        "below_since_ms": alert.below_since_ms,
        "cleared_ms": alert.cleared_ms,
        "is_told": is_told,
    }


def notification_body(
    rule: StoredRule,
    firing: Sequence[Alert],
    cleared: Sequence[Alert],
    names: Mapping[Subject, tuple[str, str]],
    now_ms: int,
) -> dict[str, Any]:
    """Return the content of a notification."""
    nouns = [(len(firing), "firing"), (len(cleared), "cleared")]
    counts = ", ".join(f"{number:,} {word}" for number, word in nouns if number)
    lines = [
        f"{word}: {subject_name(*names[alert.subject])}"
        + (f" ({value_words(rule.measure, alert.value)})" if word == "firing" else "")
        for word, alerts in (("firing", firing), ("cleared", cleared))
        for alert in alerts[:_NAMED]
    ]
    left_out = max(len(firing) - _NAMED, 0) + max(len(cleared) - _NAMED, 0)
    return {
        "rule": rule.name,
        "rule_id": rule.id,
        "severity": rule.severity,
        "condition": condition(rule.measure, rule.threshold, rule.within_ms, rule.for_ms),
        "title": f"{rule.name}: {counts}",
        "text": "\n".join([*lines, *([f"and {left_out:,} more"] if left_out else [])]),
        "at_ms": now_ms,
        "firing_count": len(firing),
        "cleared_count": len(cleared),
        "firing": [_named(alert, names) for alert in firing[:_NAMED]],
        "cleared": [_named(alert, names) for alert in cleared[:_NAMED]],
    }


def _named(alert: Alert, names: Mapping[Subject, tuple[str, str]]) -> dict[str, object]:
    topic, subscription = names[alert.subject]
    return {
        "topic": topic,
        "subscription": subscription,
        "value": alert.value,
        "since_ms": alert.over_since_ms,
    }
