"""The choice of a language."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.http import require_POST
from django.views.i18n import set_language as set_cookie

from broker.conf import broker_settings
from console.people.languages import LANGUAGE_NAMES
from console.people.preferences import set_language

__all__ = ["language"]


@login_not_required
@require_POST
def language(request: HttpRequest) -> HttpResponseBase:
    """Set the user's language."""
    code = request.POST.get("language", "")
    if code in LANGUAGE_NAMES and request.user.is_authenticated and not broker_settings().console_read_only:
        set_language(request.user, code)
    return set_cookie(request)
