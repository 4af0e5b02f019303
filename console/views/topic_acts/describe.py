"""The form for one kind of act on a topic. An act is a change that the broker makes on request."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from console.access import Rights, check_may_act, operator_only
from console.forms import posted
from console.queries.topics.topic import topic_head
from console.topic_forms.offers import offers, topic_forms
from console.views.topic_acts.planning import answer_form, prefilled

__all__ = ["topic_act"]


@require_http_methods(["GET", "HEAD", "POST"])
@operator_only
def topic_act(request: HttpRequest, rights: Rights, topic: str, act: str) -> HttpResponse:
    """Show the form, or plan the act."""
    form_class = topic_forms.get(act)
    head = topic_head(topic)
    if form_class is None or head is None:
        raise Http404(_("There is no such act or topic."))
    check_may_act(rights, topic, form_class.kind)
    form = (
        form_class(posted(request), topic=topic, is_partitioned=bool(head.partitions))
        if request.method == "POST"
        else form_class(initial=prefilled(request, form_class))
    )
    every = offers(head, rights)
    context = {
        "head": head,
        "kind": act,
        "offers": every,
        "offer": next((each for each in every if each.name == act), None),
    }
    return answer_form(
        request, rights, form, about=topic, template="console/pages/topic_act.html", context=context
    )
