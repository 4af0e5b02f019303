"""The page of one alert rule."""

from __future__ import annotations

import time
from typing import Any, Final

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from broker.acts.alerts import SUBJECTS_MOST, condition, masked_url, rule_columns, subject_name, value_words
from broker.models import AlertRule
from console.access import Rights, check_may_act, operator_only
from console.alerts import keeping
from console.alerts.form import RuleForm, initial_of
from console.blocks import page
from console.origin import origin_of
from console.queries.alerts import matches
from console.views.post_only import post_only

__all__ = ["act_on_rule", "change_rule", "new_rule"]

_PREVIEWED: Final = 5
_SILENCES_MS: Final = {
    "silence_1h": 3_600_000,
    "silence_8h": 28_800_000,
    "silence_7d": 604_800_000,
    "speak": 0,
}


@require_http_methods(["GET", "HEAD", "POST"])
@operator_only
def new_rule(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Show, preview or create a rule."""
    given = {name: request.GET[name] for name in RuleForm.base_fields if name in request.GET}
    return _form(request, rights, None, {"lasts": "5m", "severity": "warning", **_defaults(rights), **given})


@require_http_methods(["GET", "HEAD", "POST"])
@operator_only
def change_rule(request: HttpRequest, rights: Rights, rule_id: int) -> HttpResponse:
    """Show, preview or change a rule."""
    rule = _found(rights, rule_id)
    return _form(request, rights, rule, initial_of(rule))


@post_only("console:alert_rule", "rule_id")
@operator_only
def act_on_rule(request: HttpRequest, rights: Rights, rule_id: int, verb: str) -> HttpResponse:
    """Delete, silence or test a rule, or end its silence."""
    rule = _found(rights, rule_id)
    who, origin = rights.name, origin_of(request)
    try:
        if verb == "delete":
            keeping.delete_rule(rule, who=who, origin=origin)
            return redirect("console:alerts")
        if verb == "test":
            keeping.test_rule(rule, who=who, origin=origin)
        elif verb in _SILENCES_MS:
            keeping.silence_rule(rule, _SILENCES_MS[verb], who=who, origin=origin)
        else:
            raise Http404(_("There is no action {verb} for an alert rule.").format(verb=verb))
    except keeping.RuleRefused as refused:
        form = RuleForm(None, initial=initial_of(rule))
        return _answer(request, rights, rule, form, refusal=str(refused), status=409)
    return redirect("console:alert_rule", rule_id)


def _form(
    request: HttpRequest, rights: Rights, rule: AlertRule | None, initial: dict[str, Any]
) -> HttpResponse:
    kept_url = rule.webhook_url if rule else ""
    if request.method != "POST":
        return _answer(request, rights, rule, RuleForm(None, initial=initial))
    form = RuleForm(request.POST, kept_url=kept_url)
    if not form.is_valid():
        return _answer(request, rights, rule, form, status=422)
    _check(rights, form.values["namespaces"])
    if "save" not in request.POST:
        return _answer(request, rights, rule, form, preview=_preview(form.values))
    try:
        keeping.save_rule(rule, form.values, who=rights.name, origin=origin_of(request))
    except keeping.RuleRefused as refused:
        return _answer(request, rights, rule, form, refusal=str(refused), status=409)
    return redirect("console:alerts")


def _preview(values: dict[str, Any]) -> dict[str, Any]:
    columns = {name: values[name] for name in ("measure", "threshold", "within_ms")}
    places = {name: values[name] for name in ("namespaces", "topics", "subscriptions")}
    now_ms = int(time.time() * 1000)
    found = matches(rule_columns(rule_id=0, **columns, **places), now_ms)
    lasted = [row for row in found if now_ms - row.since_ms >= values["for_ms"]]
    return {
        "condition": condition(**columns, for_ms=values["for_ms"], say=_),
        "found": len(found),
        "lasted": len(lasted),
        "more": len(found) >= SUBJECTS_MOST,
        "rows": [
            (
                subject_name(row.topic_name, row.subscription_name, say=_),
                value_words(values["measure"], row.value, say=_),
            )
            for row in found[:_PREVIEWED]
        ],
        "left_out": max(len(found) - _PREVIEWED, 0),
        "tells": bool(values["webhook_url"] or values["email"]),
    }


def _answer(
    request: HttpRequest,
    rights: Rights,
    rule: AlertRule | None,
    form: RuleForm,
    *,
    preview: dict[str, Any] | None = None,
    refusal: str = "",
    status: int = 200,
) -> HttpResponse:
    context = {
        "rule": rule,
        "form": form,
        "preview": preview,
        "refusal": refusal,
        "kept_url": masked_url(rule.webhook_url) if rule else "",
        "nav": "alerts",
    }
    return page(request, rights, "console/pages/alert_rule.html", context, status=status)


def _found(rights: Rights, rule_id: int) -> AlertRule:
    rule = AlertRule.objects.filter(pk=rule_id).first() if rule_id < 1 << 63 else None
    if rule is None or not rights.may_see(rule.namespaces):
        raise Http404(_("There is no alert rule {rule_id}.").format(rule_id=rule_id))
    _check(rights, rule.namespaces)
    return rule


def _check(rights: Rights, namespaces: str) -> None:
    if rights.role_in(namespaces) is None:
        raise PermissionDenied(
            _("You need the operator role for {namespaces}.").format(namespaces=namespaces)
        )
    check_may_act(rights, namespaces, "")


def _defaults(rights: Rights) -> dict[str, str]:
    # The shortest pattern is usually the widest.
    patterns = sorted((each.pattern for each in rights.grants if rights.may_act_on(each.pattern)), key=len)
    return {"namespaces": patterns[0]} if patterns else {}
