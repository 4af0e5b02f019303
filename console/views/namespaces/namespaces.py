"""The list of namespaces."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.blocks import Source, answer
from console.queries.topics.namespaces import NamespacesAsked
from console.queries.topics.namespaces import namespaces as read_namespaces

__all__ = ["namespaces"]


@require_safe
@viewer
def namespaces(request: HttpRequest, rights: Rights) -> HttpResponse:
    """List the namespaces."""
    asked = NamespacesAsked(
        search=request.GET.get("q", "").replace("\0", "").strip(), after=request.GET.get("after", "")
    )
    source = Source(
        name="rows",
        template="console/parts/namespaces/rows.html",
        # The list does not refresh, because its query is slow with a million subscriptions.
        live=(),
        context=lambda: {"page": read_namespaces(asked, rights.scope), "asked": asked},
    )
    context = {"asked": asked, "nav": "namespaces"}
    return answer(request, rights, "console/pages/namespaces.html", [source], context)
