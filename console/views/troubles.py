"""Notices about the broker and the database, for pages without server-sent events."""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.notices import notices_of
from console.queries.chrome import chrome

__all__ = ["troubles"]


@require_safe
@viewer
def troubles(request: HttpRequest, rights: Rights) -> JsonResponse:
    """Answer with the data of the live stream's `health` event."""
    state = chrome()
    notices = notices_of(state, state.waiting_in(rights.scope))
    return JsonResponse(notices.to_json(), headers={"Cache-Control": "private, no-store"})
