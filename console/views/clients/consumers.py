"""The list of connected consumers."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.blocks import Source, answer
from console.queries.clients import CONSUMER_FLAGS, CONSUMER_ORDERS
from console.queries.clients import consumers as read_consumers
from console.saved_views.found import views_of
from console.views.clients.asked import EVERY_S, asked_of, form_of, list_of

__all__ = ["consumers"]


@require_safe
@viewer
def consumers(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Show the connected consumers."""
    views = views_of(request, rights)
    if views is not None and views.goes_to:
        return redirect(views.goes_to)
    asked = asked_of(request.GET, orders=CONSUMER_ORDERS, flags=CONSUMER_FLAGS)
    found = read_consumers(asked, rights.scope)
    source = Source(
        name="rows",
        template="console/parts/clients/consumers.html",
        live=tuple(
            sorted({f"sub:{row.subscription_id}" for row in found.rows if row.subscription_id is not None})
        ),
        every_s=EVERY_S,
        context=lambda: {**list_of(request.GET, asked, found, CONSUMER_ORDERS), "has_place": True},
    )
    context = {**form_of(asked, CONSUMER_FLAGS), "views": views}
    return answer(request, rights, "console/pages/consumers.html", [source], context)
