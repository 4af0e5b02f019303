"""Publish a stored message again, with or without changes."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from broker.acts import requests as acts
from broker.acts.kinds.topics.message import MOST_PAYLOAD_BYTES
from console.access import Rights, operator_only, plan
from console.addresses import again_url
from console.blocks import page
from console.messages.asked import read_spot
from console.messages.message import FoundMessage, MessageMissing, find_message, partition_of
from console.queries.topics.topic import topic_head
from console.topic_forms.publish import AgainForm, EditedForm, as_it_is, to_edit
from vela.wire.entry import Message

__all__ = ["publish_again"]


@require_http_methods(["GET", "HEAD", "POST"])
@operator_only
def publish_again(request: HttpRequest, rights: Rights, topic: str, spot: str) -> HttpResponseBase:
    """Show the forms, or make a plan to publish the message."""
    if not rights.may_see_payloads:
        raise PermissionDenied(_("Only users who may read a message may publish it again."))
    head = topic_head(topic)
    if head is None:
        raise Http404(_("There is no topic {name}.").format(name=topic))
    try:
        place = read_spot(spot)
        if head.partitions:
            return redirect(again_url(partition_of(head, place), place))
        found = find_message(head, place)
    except (ValueError, MessageMissing) as error:
        raise Http404(str(error)) from None
    context: dict[str, Any] = {"head": head, "found": found, "nav": "topics", "why_not": _why_not(found)}
    message = found.message
    if message is None or context["why_not"]:
        return page(request, rights, "console/pages/again.html", context)
    return _answer(request, rights, message, context, copy_of=f"{head.name} {found.spot}")


def _answer(
    request: HttpRequest, rights: Rights, message: Message, context: dict[str, Any], *, copy_of: str
) -> HttpResponse:
    how = request.POST.get("how", "") if request.method == "POST" else ""
    target = {"to_topic": context["head"].name}
    as_is = AgainForm(
        request.POST if how == "as-is" else None, initial=target, prefix=None, auto_id="as_is_%s"
    )
    edited = EditedForm(request.POST if how == "edited" else None, initial={**to_edit(message), **target})
    status, refusal = (422, "") if how else (200, "")
    chosen = {"as-is": as_is, "edited": edited}.get(how)
    if chosen is not None and chosen.is_valid():
        parameters = as_it_is(message) if chosen is as_is else edited.parameters()
        try:
            view = plan(
                request,
                rights,
                "publish",
                topic=chosen.cleaned_data["to_topic"],
                parameters={**parameters, "copy_of": copy_of},
            )
        except acts.ActRefused as refused:
            status, refusal = 409, refused.text
        else:
            return redirect("console:act", view.id)
    context |= {"as_is": as_is, "form": edited, "refusal": refusal}
    return page(request, rights, "console/pages/again.html", context, status=status)


def _why_not(found: FoundMessage) -> str:
    if found.message is None:
        return _("The message cannot be read, so it cannot be published again: it is {why}.").format(
            why=found.opened.why
        )
    if len(found.message.payload) > MOST_PAYLOAD_BYTES:
        return _("The message is larger than 1 MiB. Publish it again with a client.")
    return ""
