"""The list of connected producers."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.blocks import Source, answer
from console.queries.clients import PRODUCER_FLAGS, PRODUCER_ORDERS
from console.queries.clients import producers as read_producers
from console.saved_views.found import views_of
from console.views.clients.asked import EVERY_S, asked_of, form_of, list_of

__all__ = ["producers"]


@require_safe
@viewer
def producers(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Show the connected producers."""
    views = views_of(request, rights)
    if views is not None and views.goes_to:
        return redirect(views.goes_to)
    asked = asked_of(request.GET, orders=PRODUCER_ORDERS, flags=PRODUCER_FLAGS)
    found = read_producers(asked, rights.scope)
    source = Source(
        name="rows",
        template="console/parts/clients/producers.html",
        live=tuple(sorted({f"topic:{row.topic_id}" for row in found.rows})),
        every_s=EVERY_S,
        context=lambda: {**list_of(request.GET, asked, found, PRODUCER_ORDERS), "has_place": True},
    )
    context = {**form_of(asked, PRODUCER_FLAGS), "views": views}
    return answer(request, rights, "console/pages/producers.html", [source], context)
