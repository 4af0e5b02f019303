"""The page of one namespace."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from broker.acts import requests as acts
from console.access import Rights, admin_only, plan, viewer
from console.blocks import Source, answer
from console.queries.topics import namespaces as queries
from console.queries.topics.list import TopicsAsked, topics
from console.views.namespaces.described import policies_of_namespace
from console.views.post_only import post_only
from vela.wire.topic_name import DEFAULT_NAMESPACE

__all__ = ["delete_namespace", "found_namespace", "namespace"]

_TOPICS = 10
_EVERY_S = 10


@require_safe
@viewer
def namespace(request: HttpRequest, rights: Rights, tenant: str, namespace: str) -> HttpResponse:
    """Show one namespace."""
    return _answer(request, rights, found_namespace(tenant, namespace))


@post_only("console:namespace", "tenant", "namespace")
@admin_only
def delete_namespace(request: HttpRequest, rights: Rights, tenant: str, namespace: str) -> HttpResponse:
    """Plan the deletion of a namespace."""
    found = found_namespace(tenant, namespace)
    try:
        planned = plan(request, rights, "delete_namespace", topic=found.full_name, parameters={})
    except acts.ActRefused as refused:
        return _answer(request, rights, found, refusal=refused.text, status=409)
    return redirect("console:act", planned.id)


def found_namespace(tenant: str, name: str) -> queries.NamespaceRow:
    """Return the namespace. Raises Http404 if the namespace does not exist."""
    found = queries.namespace(tenant, name)
    if found is None:
        raise Http404(_("There is no namespace {name}.").format(name=f"{tenant}/{name}"))
    return found


def _answer(
    request: HttpRequest,
    rights: Rights,
    found: queries.NamespaceRow,
    *,
    refusal: str = "",
    status: int = 200,
) -> HttpResponse:
    numbers = queries.namespace_numbers([found.id])[found.id]
    worst = TopicsAsked(namespace=found.full_name, order="worst", limit=_TOPICS)
    sources = [
        Source(
            name="numbers",
            template="console/parts/namespaces/numbers.html",
            live=(),
            every_s=_EVERY_S,
            context=lambda: {"numbers": numbers},
        ),
        Source(
            name="topics",
            template="console/parts/namespaces/topics.html",
            live=(),
            every_s=_EVERY_S,
            context=lambda: {"head": found, "page": topics(worst, rights.scope)},
        ),
        Source(
            name="policies",
            template="console/parts/topic/policies.html",
            live=(),
            context=lambda: {
                "described": policies_of_namespace(found.full_name, found.policies),
                "subject": found.full_name,
            },
        ),
    ]
    context = {
        "head": found,
        "numbers": numbers,
        "is_default": found.full_name == DEFAULT_NAMESPACE,
        "refusal": refusal,
        "nav": "namespaces",
    }
    return answer(request, rights, "console/pages/namespace.html", sources, context, status=status)
