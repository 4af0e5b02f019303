"""The export of the act log."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.act_log.export import export_acts
from console.files import TOO_MANY, TRY_AGAIN, Form, sent, take_place
from console.views.acts.log import acts_asked

__all__ = ["acts_export"]


@require_safe
@viewer
def acts_export(request: HttpRequest, rights: Rights) -> HttpResponseBase:
    """Send the matching acts as a file."""
    form: Form = "csv" if request.GET.get("format") == "csv" else "ndjson"
    place = take_place()
    if place is None:
        return HttpResponse(
            f"{TOO_MANY}\n", status=503, content_type="text/plain; charset=utf-8", headers=TRY_AGAIN
        )
    pieces = export_acts(acts_asked(request.GET), rights.scope, form=form)
    return sent(request, pieces, place, name="acts", form=form)
