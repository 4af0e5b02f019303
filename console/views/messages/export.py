"""Export a topic's matching messages as a file."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.files import TOO_MANY, TRY_AGAIN, Form, sent, take_place
from console.messages.asked import AskedInvalid
from console.messages.export import export
from console.messages.form import BrowseForm
from console.views.messages.asked import asked_by, head_of

__all__ = ["export_messages"]


@require_safe
@viewer
def export_messages(request: HttpRequest, rights: Rights, topic: str) -> HttpResponseBase:
    """Send the matching messages as a file."""
    head = head_of(topic)
    form = BrowseForm(request.GET)
    chosen: Form = "csv" if request.GET.get("format") == "csv" else "ndjson"
    asked = asked_by(form, rights)
    if asked is None:
        return _refused(form)
    place = take_place()
    if place is None:
        return HttpResponse(
            f"{TOO_MANY}\n", status=503, content_type="text/plain; charset=utf-8", headers=TRY_AGAIN
        )
    try:
        pieces = export(head, asked, form=chosen, with_contents=rights.may_see_payloads)
    except AskedInvalid as error:
        place.close()
        form.add_error(error.field, str(error))
        return _refused(form)
    return sent(request, pieces, place, name="messages", form=chosen)


def _refused(form: BrowseForm) -> HttpResponse:
    lines = [str(error) for errors in form.errors.values() for error in errors]
    return HttpResponse("\n".join(lines) + "\n", status=400, content_type="text/plain; charset=utf-8")
