"""Who may call: a person's session with its CSRF token, or the same person by HTTP Basic with JSON.

A page of another site can make a browser send a session cookie, or Basic credentials that the browser remembers. It
cannot send JSON, nor the token, without this site's consent. So with Basic every request that changes something needs
a JSON body, and with a session it needs the token.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware

from console.access import Rights, rights_of
from console.api.basic import ASK_FOR_BASIC, user_by_password
from console.api.problems import Problem

__all__ = ["ACTS", "LOOKS", "SEES_PAYLOADS", "AuthorizedRequest"]

_SAFE = ("GET", "HEAD")


class AuthorizedRequest(HttpRequest):
    """A request as an operation gets it: ninja keeps in `auth` what `Caller` returned."""

    auth: Rights


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Ninja's `auth` of an operation: returns the caller's rights. Raises Problem if they do not suffice."""

    acts: bool = False  # needs the right to act
    payloads: bool = False  # needs the right to see what is in messages

    def __call__(self, request: HttpRequest) -> Rights:
        """Check password or session first, then rights, then the body's type."""
        rights = _rights(request)
        if (self.acts and not rights.may_act) or (self.payloads and not rights.may_see_payloads):
            raise Problem(
                403, "AuthorizationError", "only staff and members of the group operator may do this"
            )
        if request.method not in _SAFE and request.body and not _is_json(request):
            raise Problem(415, "NotJson", "send Content-Type: application/json")
        return rights


LOOKS = Caller()
ACTS = Caller(acts=True)
SEES_PAYLOADS = Caller(payloads=True)


class _Csrf(CsrfViewMiddleware):
    def _reject(self, request: HttpRequest, reason: str) -> HttpResponse:
        raise Problem(
            403, "CsrfFailed", f"{reason} Send the cookie's token as X-CSRFToken, or use HTTP Basic."
        )


def _rights(request: HttpRequest) -> Rights:
    header = request.headers.get("Authorization", "")
    if header:
        rights = rights_of(user_by_password(request, header))
        if request.method not in _SAFE and not _is_json(request):
            raise Problem(415, "NotJson", "send Content-Type: application/json")
        return rights
    if not request.user.is_authenticated:
        raise Problem(
            401, "AuthenticationError", "log in, or send HTTP Basic credentials", headers=ASK_FOR_BASIC
        )
    if request.method not in _SAFE:
        check = _Csrf(lambda _: HttpResponse())
        check.process_request(request)
        check.process_view(request, _not_exempt, (), {})
    return rights_of(request.user)


def _is_json(request: HttpRequest) -> bool:
    return request.content_type == "application/json"


def _not_exempt(_: HttpRequest) -> HttpResponse:
    """Stand in for the view in the CSRF check, because ninja's views are exempt from it. Never called."""
    return HttpResponse()
