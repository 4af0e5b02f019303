"""Choose the subscription for an act. An act is a change that the broker makes on request."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.access import Rights, check_may_act, operator_only
from console.addresses import act_form_url
from console.blocks import page
from console.forms import act_forms
from console.queries.topics.topic import ROWS_TO_CHOOSE, subscription_names, topic_head
from console.views.topic_acts.planning import prefilled

__all__ = ["choose"]


@require_safe
@operator_only
def choose(request: HttpRequest, rights: Rights, topic: str, kind: str) -> HttpResponse:
    """List the topic's subscriptions, each with a link to the act's form."""
    form_class = act_forms.get(kind)
    head = topic_head(topic)
    if form_class is None or head is None:
        raise Http404(_("There is no such act or topic."))
    check_may_act(rights, topic, form_class.kind)
    given = {name: value for name, value in prefilled(request, form_class).items() if value}
    filled = urlencode(given)
    search = request.GET.get("q", "").replace("\0", "").strip()
    names = subscription_names(head.id, search=search, after=request.GET.get("after", ""))
    shown = names[:ROWS_TO_CHOOSE]
    more = {**given, "q": search, "after": shown[-1]} if len(names) > ROWS_TO_CHOOSE else None
    context = {
        "head": head,
        "form": form_class,
        "given": given,
        "search": search,
        "rows": [(name, f"{act_form_url(topic, name, kind)}?{filled}") for name in shown],
        "next_query": urlencode(more) if more else "",
        "nav": "topics",
    }
    return page(request, rights, "console/pages/choose.html", context)
