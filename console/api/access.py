"""Check the credentials and the rights of a request.

Another site can make a browser send a session cookie or saved Basic credentials, but not a CSRF token or the
content type for JSON. A write request with a session cookie therefore needs a CSRF token. A write request with an
Authorization header needs the content type for JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware

from console.access import Rights, Role, rights_of
from console.access.guards import READ_ONLY, SAFE, place_in, refusal_of
from console.api.basic import ASK_FOR_BASIC, user_by_password
from console.api.bearer import SCHEME, rights_by_token
from console.api.problems import Problem
from console.api.rates import check_rate
from console.people.no_role import NO_ROLE

__all__ = ["ACTS", "LOOKS", "SEES_PAYLOADS", "AuthorizedRequest", "check_may_act"]


class AuthorizedRequest(HttpRequest):
    """A request whose `auth` holds the rights that `Caller` returned."""

    auth: Rights


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The check that ninja runs before an operation. It returns the caller's rights in the requested namespace.

    Raises Problem for wrong credentials, missing rights, a body that is not JSON, or too many requests.
    """

    acts: bool = False
    payloads: bool = False

    def __call__(self, request: HttpRequest) -> Rights:
        names = {} if request.resolver_match is None else request.resolver_match.kwargs
        rights = _rights(request).at(place_in(names))
        check_rate(rights.name)
        if rights.place and rights.here is None:
            raise _nothing_there(names)
        if not rights.sees_anything:
            raise Problem(403, "AuthorizationError", NO_ROLE)
        if rights.is_read_only and request.method not in SAFE:
            raise Problem(403, "ReadOnly", READ_ONLY)
        if (self.acts and not rights.may_act) or (self.payloads and not rights.may_see_payloads):
            role = Role.OPERATOR if self.acts else Role.READER
            where = f" for {rights.place}" if rights.place else ""
            raise Problem(403, "AuthorizationError", f"you need the {role.word} role{where}")
        if request.method not in SAFE and request.body and not _is_json(request):
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


def check_may_act(rights: Rights, name: str, kind: str) -> None:
    """Raise Problem unless the user may request acts of this kind on a topic or namespace."""
    if not rights.may_see(name):
        what = "topic" if "://" in name else "namespace"
        raise Problem(404, "NothingToActOn", f"there is no {what} {name}")
    if not rights.may_act_on(name, kind):
        raise Problem(403, "AuthorizationError", refusal_of(name, kind))


def _nothing_there(names: Mapping[str, str]) -> Problem:
    """Return a problem that does not reveal whether the name is missing or hidden from the caller."""
    namespace = f"{names['tenant']}/{names['namespace']}"
    if "local_name" not in names:
        return Problem(404, "NamespaceNotFound", f"there is no namespace {namespace}")
    return Problem(
        404, "TopicNotFound", f"there is no topic {names['domain']}://{namespace}/{names['local_name']}"
    )


def _rights(request: HttpRequest) -> Rights:
    header = request.headers.get("Authorization", "")
    if header:
        if header[: len(SCHEME)].lower() == SCHEME:
            rights = rights_by_token(header)
        else:
            rights = rights_of(user_by_password(request, header))
        if request.method not in SAFE and not _is_json(request):
            raise Problem(415, "NotJson", "send Content-Type: application/json")
        return rights
    if not request.user.is_authenticated:
        raise Problem(
            401, "AuthenticationError", "log in, or send HTTP Basic credentials", headers=ASK_FOR_BASIC
        )
    if request.method not in SAFE:
        check = _Csrf(lambda _: HttpResponse())
        check.process_request(request)
        check.process_view(request, _not_exempt, (), {})
    return rights_of(request.user)


def _is_json(request: HttpRequest) -> bool:
    return request.content_type == "application/json"


def _not_exempt(_: HttpRequest) -> HttpResponse:
    """A view for the CSRF check. The check would skip the real view, because ninja marks its views as exempt."""
    return HttpResponse()
