"""The page of client tokens."""

from __future__ import annotations

from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from broker.acts import access
from broker.conf import SettingInvalid, broker_settings
from console.access import Rights, admin_everywhere_only
from console.blocks import page
from console.origin import origin_of
from console.queries.people.tokens import TOKENS_MOST, newest_tokens
from console.views.post_only import post_only

__all__ = ["revoke_token", "tokens"]

_DAY_MS = 24 * 3600 * 1000
_LIFETIMES = {
    "1": gettext_lazy("1 day"),
    "30": gettext_lazy("30 days"),
    "90": gettext_lazy("90 days"),
    "365": gettext_lazy("1 year"),
    "never": gettext_lazy("never"),
}
_TOO_LONG = gettext_lazy("At most 255 characters.")
_NO_ROLE = gettext_lazy("Give the role.")
_NO_LIFETIME = gettext_lazy("Choose how long the token is valid.")


class NewTokenForm(forms.Form):
    """The role and the lifetime of a new token."""

    role = forms.CharField(
        max_length=255,
        strip=False,
        error_messages={"required": _NO_ROLE, "max_length": _TOO_LONG},
    )
    days = forms.ChoiceField(
        choices=list(_LIFETIMES.items()),
        error_messages={
            "required": _NO_LIFETIME,
            "invalid_choice": _NO_LIFETIME,
        },
    )

    def clean_role(self) -> str:
        role: str = self.cleaned_data["role"]
        if not role.strip():
            raise forms.ValidationError(_NO_ROLE)
        return role

    def lifetime_ms(self) -> int | None:
        """Return the lifetime in milliseconds, or None for a token that never expires."""
        days: str = self.cleaned_data["days"]
        return None if days == "never" else int(days) * _DAY_MS


class RevokeForm(forms.Form):
    """The id of the token to revoke."""

    id = forms.CharField(
        max_length=255,
        error_messages={"required": gettext_lazy("Name the token."), "max_length": _TOO_LONG},
    )


@require_http_methods(["GET", "HEAD", "POST"])
@admin_everywhere_only
def tokens(request: HttpRequest, rights: Rights) -> HttpResponse:
    """List tokens, or create a token and show it once."""
    if request.method != "POST":
        return _answer(request, rights, done=_done(request.GET.get("done", "")))
    form = NewTokenForm(request.POST)
    if not form.is_valid():
        return _answer(request, rights, refusal=_said(form), given=form, status=422)
    try:
        made = access.create_token(
            broker_settings(),
            form.cleaned_data["role"],
            lifetime_ms=form.lifetime_ms(),
            who=rights.name,
            origin=origin_of(request),
        )
    except (access.NoSigningKey, SettingInvalid) as refused:
        return _answer(request, rights, refusal=str(refused), given=form, status=409)
    return _answer(request, rights, made=made)


@post_only("console:tokens")
@admin_everywhere_only
def revoke_token(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Revoke a token by its id."""
    form = RevokeForm(request.POST)
    if not form.is_valid():
        return _answer(request, rights, refusal=_said(form), status=422)
    access.revoke_token(form.cleaned_data["id"], who=rights.name, origin=origin_of(request))
    return redirect(f"{reverse('console:tokens')}?{urlencode({'done': 'revoked'})}")


def _done(what: str) -> str:
    return _("The token is revoked. Its connections are closed within a second.") if what == "revoked" else ""


def _said(form: forms.Form) -> str:
    return " ".join(str(error) for errors in form.errors.values() for error in errors)


def _answer(
    request: HttpRequest,
    rights: Rights,
    *,
    done: str = "",
    refusal: str = "",
    made: access.CreatedToken | None = None,
    given: NewTokenForm | None = None,
    status: int = 200,
) -> HttpResponse:
    context = {
        "rows": newest_tokens(),
        "most": TOKENS_MOST,
        "lifetimes": _LIFETIMES,
        "given": given or NewTokenForm(initial={"days": "30"}),
        "has_tokens": "token" in broker_settings().authentication,
        "done": done,
        "refusal": refusal,
        "made": made,
        "nav": "tokens",
    }
    return page(request, rights, "console/pages/tokens.html", context, status=status)
