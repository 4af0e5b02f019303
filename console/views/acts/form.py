"""The form of an act: an operator's change to a subscription."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from broker.acts import requests as acts
from console.access import Rights, check_may_act, operator_only, plan
from console.blocks import page
from console.forms import ActForm, act_forms, posted
from console.forms.partitions import PartitionsForm
from console.queries.letters.origins import has_usual_name
from console.queries.subscription import (
    PartitionedHead,
    SubscriptionHead,
    partitioned_head,
    subscription_head,
)

__all__ = ["act_form"]


@require_http_methods(["GET", "HEAD", "POST"])
@operator_only
def act_form(request: HttpRequest, rights: Rights, topic: str, name: str, kind: str) -> HttpResponse:
    """Show the form of an act, or plan the act."""
    form_class = act_forms.get(kind)
    head = subscription_head(topic, name) or partitioned_head(topic, name)
    if form_class is None or head is None:
        raise Http404(_("There is no such act or subscription."))
    check_may_act(rights, topic, form_class.kind)
    partitions = PartitionsForm(request, head.partitions) if isinstance(head, PartitionedHead) else None
    if partitions is not None and form_class.is_on_one_partition():
        raise Http404(
            _("{act} acts on one partition: open a partition and act there.").format(act=form_class.heading)
        )
    if request.method == "POST":
        form = form_class(posted(request), topic=topic, is_partitioned=partitions is not None)
    else:
        form = _prefilled(form_class, request)
    status, refusal = 200, ""
    if request.method == "POST":
        status = 422
        if form.is_valid() and (partitions is None or partitions.is_valid()):
            try:
                view = plan(
                    request,
                    rights,
                    form_class.kind,
                    topic=topic,
                    subscription=name,
                    parameters={**form.parameters(), **(partitions.parameters() if partitions else {})},
                )
            except acts.ActRefused as refused:
                status, refusal = 409, refused.text
            else:
                return redirect("console:act", view.id)
    context = {
        "head": head,
        "form": form,
        "partitions": partitions,
        "kind": kind,
        "kinds": {
            known: each for known, each in act_forms.items() if known == kind or _is_of_use(each, head)
        },
        "refusal": refusal,
        "nav": "topics",
    }
    return page(request, rights, "console/pages/act_form.html", context, status=status)


def _is_of_use(form_class: type[ActForm], head: SubscriptionHead | PartitionedHead) -> bool:
    if isinstance(head, PartitionedHead):
        return not form_class.is_on_one_partition()
    match form_class.kind:
        case "pause":
            return not head.paused
        case "resume":
            return head.paused
        case "redrive":
            return has_usual_name(head.topic_name)
    return True


def _prefilled(form_class: type[ActForm], request: HttpRequest) -> ActForm:
    given = {name: request.GET[name] for name in form_class.base_fields if name in request.GET}
    return form_class(initial=given)
