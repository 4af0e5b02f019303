"""Operations on alert rules and alerts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from django.http import HttpResponse
from django.urls import reverse
from ninja import Body, Query, Router
from ninja.decorators import decorate_view
from ninja.responses import Status

from broker.models import AlertRule
from console.access.guards import refusal_of
from console.alerts import keeping
from console.api.access import ACTS, AuthorizedRequest
from console.api.alerts.answers import Alerts, Rule, Rules
from console.api.alerts.parameters import ChangedRule, NewRule, Silence, checked_rule, silence_ms
from console.api.app import read
from console.api.conditional import with_etag
from console.api.pages import next_token, read_token
from console.api.parameters import Page
from console.api.problems import Problem
from console.origin import api_origin_of
from console.queries import alerts as queries
from console.queries.alerts import FiringRow, RuleRow

__all__ = ["router"]

_MOST_ID: Final = 2**63 - 1
_RULES: Final = "/alerts/rules"
_RULE: Final = f"{_RULES}/{{int:rule_id}}"
router = Router()


@read(router, _RULES, response=Rules)
@decorate_view(with_etag)
def alert_rules(request: AuthorizedRequest) -> dict[str, Any]:
    """List the alert rules, sorted by name."""
    return {"rules": [row for row in queries.alert_rules() if request.auth.may_see(row.namespaces)]}


@router.post(_RULES, auth=ACTS, response={201: Rule})
def create_alert_rule(
    request: AuthorizedRequest, response: HttpResponse, asked: Body[NewRule]
) -> Status[RuleRow]:
    """Create an alert rule."""
    values = checked_rule(None, asked)
    _check(request, values["namespaces"])
    with _refusals():
        rule = keeping.save_rule(None, values, who=request.auth.name, origin=api_origin_of(request))
    response["Location"] = reverse("api:show_alert_rule", args=[rule.pk])
    return Status(201, _shown(rule.pk))


@read(router, _RULE, response=Rule, url_name="show_alert_rule")
def show_alert_rule(request: AuthorizedRequest, rule_id: int) -> RuleRow:
    """Show an alert rule as it is now."""
    row = queries.alert_rule(rule_id) if rule_id <= _MOST_ID else None
    if row is None or not request.auth.may_see(row.namespaces):
        raise _no_rule(rule_id)
    return row


@router.patch(_RULE, auth=ACTS, response=Rule)
def change_alert_rule(request: AuthorizedRequest, rule_id: int, asked: Body[ChangedRule]) -> RuleRow:
    """Change an alert rule.

    Fields that you leave out keep their values. The change clears the rule's firing alerts without a notification.
    """
    rule = _changeable(request, rule_id)
    values = checked_rule(rule, asked)
    _check(request, values["namespaces"])
    with _refusals():
        keeping.save_rule(rule, values, who=request.auth.name, origin=api_origin_of(request))
    return _shown(rule_id)


@router.delete(_RULE, auth=ACTS, response=Rule)
def delete_alert_rule(request: AuthorizedRequest, rule_id: int) -> RuleRow:
    """Delete an alert rule and return it.

    The rule's past alerts stay in the history.
    """
    rule = _changeable(request, rule_id)
    was = _shown(rule_id)
    keeping.delete_rule(rule, who=request.auth.name, origin=api_origin_of(request))
    return was


@router.post(f"{_RULE}/silence", auth=ACTS, response=Rule)
def silence_alert_rule(request: AuthorizedRequest, rule_id: int, asked: Body[Silence]) -> RuleRow:
    """Silence an alert rule for a while.

    During the silence, the rule's alerts still fire and clear. After the silence, the rule reports the alerts that
    started during the silence and are still firing.
    """
    rule = _changeable(request, rule_id)
    length_ms = silence_ms(asked)
    with _refusals():
        keeping.silence_rule(rule, length_ms, who=request.auth.name, origin=api_origin_of(request))
    return _shown(rule_id)


@router.post(f"{_RULE}/test", auth=ACTS, response=Rule)
def test_alert_rule(request: AuthorizedRequest, rule_id: int) -> RuleRow:
    """Send a test notification."""
    rule = _changeable(request, rule_id)
    with _refusals():
        keeping.test_rule(rule, who=request.auth.name, origin=api_origin_of(request))
    return _shown(rule_id)


@read(router, "/alerts/firing", response=Alerts)
@decorate_view(with_etag)
def firing_alerts(request: AuthorizedRequest, asked: Query[Page]) -> dict[str, Any]:
    """List the alerts that are firing, newest first."""
    (before,) = read_token(asked.after, _MOST_ID)
    rows = queries.firing_alerts(request.auth.scope, before=_number(before), limit=asked.limit)
    return _page(rows, asked.limit, lambda row: (row.id,))


@read(router, "/alerts/history", response=Alerts)
@decorate_view(with_etag)
def alert_history(request: AuthorizedRequest, asked: Query[Page]) -> dict[str, Any]:
    """List the alerts that cleared in the last 30 days, most recently cleared first."""
    cleared_ms, alert_id = read_token(asked.after, _MOST_ID, _MOST_ID)
    before = (_number(cleared_ms), _number(alert_id))
    rows = queries.cleared_alerts(request.auth.scope, before=before, limit=asked.limit)
    return _page(rows, asked.limit, lambda row: (row.cleared_ms or 0, row.id))


def _page(rows: list[FiringRow], limit: int, key: Callable[[FiringRow], tuple[int, ...]]) -> dict[str, Any]:
    shown = rows[:limit]
    return {"alerts": shown, "next_after": next_token(*key(shown[-1])) if len(rows) > len(shown) else None}


def _number(value: int) -> int:
    """Limit a number from a page token to a range that PostgreSQL can store."""
    return max(0, min(value, _MOST_ID))


def _changeable(request: AuthorizedRequest, rule_id: int) -> AlertRule:
    rule = AlertRule.objects.filter(pk=rule_id).first() if rule_id <= _MOST_ID else None
    if rule is None or not request.auth.may_see(rule.namespaces):
        raise _no_rule(rule_id)
    _check(request, rule.namespaces)
    return rule


def _check(request: AuthorizedRequest, namespaces: str) -> None:
    if not request.auth.may_act_on(namespaces):
        raise Problem(403, "AuthorizationError", refusal_of(namespaces, ""))


def _shown(rule_id: int) -> RuleRow:
    row = queries.alert_rule(rule_id)
    if row is None:  # Another request has just deleted the rule
        raise _no_rule(rule_id)
    return row


def _no_rule(rule_id: int) -> Problem:
    return Problem(404, "RuleNotFound", f"there is no alert rule {rule_id}")


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except keeping.RuleRefused as refused:
        raise Problem(409, "RuleRefused", str(refused)) from refused
