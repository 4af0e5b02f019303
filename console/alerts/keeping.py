"""Create, change, silence, test and delete alert rules."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from broker.acts.alerts import condition
from broker.models import Act, AlertFiring, AlertNotification, AlertRule

__all__ = ["RULES_MOST", "RuleRefused", "delete_rule", "save_rule", "silence_rule", "test_rule"]

RULES_MOST: Final = 100  # Limited because every alert check evaluates all rules
_LOCK: Final = 0x56454C41_414C
_TESTS_A_MINUTE: Final = 4


class RuleRefused(Exception):
    """The request was refused and changed nothing."""


def save_rule(rule: AlertRule | None, values: Mapping[str, Any], *, who: str, origin: str) -> AlertRule:
    """Create or change a rule. A change clears the rule's firing alerts without a notification.

    Raises RuleRefused if the name is taken, the rule was deleted, or no more rules are allowed.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        others = AlertRule.objects.exclude(pk=rule.pk) if rule else AlertRule.objects
        if others.filter(name=values["name"]).exists():
            raise RuleRefused(
                _("there is already a rule {name!r}: choose another name").format(name=values["name"])
            )
        if rule is None:
            if AlertRule.objects.count() >= RULES_MOST:
                raise RuleRefused(
                    _("there are already {most} rules, the maximum: delete one first").format(most=RULES_MOST)
                )
            kept = AlertRule.objects.create(**values, who=who)
        else:
            kept = _locked(rule)
            for name, value in values.items():
                setattr(kept, name, value)
            kept.save(update_fields=list(values))
            _close(kept.pk)
        _log(kept, "set_alert_rule", {"condition": words_of(kept)}, who=who, origin=origin)
    return kept


def delete_rule(rule: AlertRule, *, who: str, origin: str) -> None:
    """Delete a rule and all its notifications. The rule's past alerts stay in the history.

    Does nothing if the rule is already deleted.
    """
    with transaction.atomic():
        if _stored(rule) is None:
            return
        _close(rule.pk)
        _log(rule, "delete_alert_rule", {"condition": words_of(rule)}, who=who, origin=origin)
        rule.delete()


def silence_rule(rule: AlertRule, length_ms: int, *, who: str, origin: str) -> datetime | None:
    """Silence a rule for `length_ms` and return the end of the silence.

    For a length of 0, end the silence and return None. Raises RuleRefused if the rule was deleted.
    """
    until = timezone.now() + timedelta(milliseconds=length_ms) if length_ms else None
    with transaction.atomic():
        _locked(rule)
        AlertRule.objects.filter(pk=rule.pk).update(silent_until=until)
        parameters = {"until": None if until is None else until.isoformat(timespec="seconds")}
        _log(rule, "silence_alert_rule", parameters, who=who, origin=origin)
    return until


def test_rule(rule: AlertRule, *, who: str, origin: str) -> None:
    """Store a test notification for each address of a rule.

    Raises RuleRefused if the rule has no address, was deleted, or was tested four times in the last minute.
    """
    channels = [name for name, address in (("webhook", rule.webhook_url), ("email", rule.email)) if address]
    if not channels:
        raise RuleRefused(_("the rule notifies nobody: give it a webhook or an e-mail address first"))
    a_minute_ago = timezone.now() - timedelta(minutes=1)
    with transaction.atomic():
        _locked(rule)
        tests = Act.objects.filter(
            kind="test_alert_rule", requested_at__gte=a_minute_ago, parameters__name=rule.name
        )
        if tests.count() >= _TESTS_A_MINUTE:
            raise RuleRefused(
                _("the rule was tested {times} times in the last minute: wait a little").format(
                    times=_TESTS_A_MINUTE
                )
            )
        body = {
            "rule": rule.name,
            "rule_id": rule.pk,
            "severity": rule.severity,
            "condition": words_of(rule),
            "title": f"{rule.name}: test",
            "text": f"{who} is testing this rule's notifications. Nothing is wrong.",
            "at_ms": int(time.time() * 1000),
            "firing_count": 0,
            "cleared_count": 0,
            "firing": [],
            "cleared": [],
        }
        for channel in channels:
            AlertNotification.objects.create(rule=rule, channel=channel, body=body)
        _log(rule, "test_alert_rule", {}, who=who, origin=origin)


def words_of(rule: AlertRule) -> str:
    """Return the rule's condition in words."""
    return condition(rule.measure, rule.threshold, rule.within_ms, rule.for_ms)


def _stored(rule: AlertRule) -> AlertRule | None:
    return AlertRule.objects.select_for_update().filter(pk=rule.pk).first()


def _locked(rule: AlertRule) -> AlertRule:
    found = _stored(rule)
    if found is None:
        raise RuleRefused(_("somebody deleted this rule meanwhile: create it again"))
    return found


def _close(rule_id: int) -> None:
    found = AlertFiring.objects.filter(rule_id=rule_id, cleared_ms=None)
    found.filter(fired_ms=None).delete()
    found.update(cleared_ms=int(time.time() * 1000))
    AlertFiring.objects.filter(rule_id=rule_id, is_clear_told=False).update(is_clear_told=True)


def _log(rule: AlertRule, kind: str, parameters: Mapping[str, Any], *, who: str, origin: str) -> None:
    """Log an action without the webhook's URL, which may contain a secret."""
    now = timezone.now()
    Act.objects.create(
        kind=kind,
        state=Act.State.APPLIED,
        topic_name=rule.namespaces,
        subscription_name="",
        parameters={"name": rule.name, **parameters},
        who=who,
        origin=origin,
        requested_at=now,
        finished_at=now,
    )
