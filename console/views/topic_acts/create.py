"""The form that creates a topic."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from console.access import Rights, operator_only
from console.queries.topics.list import namespaces
from console.topic_forms.life import CreateTopicForm
from console.views.topic_acts.planning import answer_form, prefilled

__all__ = ["create_topic"]


@require_http_methods(["GET", "HEAD", "POST"])
@operator_only
def create_topic(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Show the form, or make a plan to create the topic."""
    given = request.POST if request.method == "POST" else request.GET
    in_scope = namespaces(rights.scope, chosen=given.get("namespace", "").replace("\0", ""))
    known = tuple(name for name in in_scope if rights.may_act_on(name, CreateTopicForm.kind))
    form = (
        CreateTopicForm(request.POST, namespaces=known)
        if request.method == "POST"
        else CreateTopicForm(initial=prefilled(request, CreateTopicForm), namespaces=known)
    )
    return answer_form(
        request,
        rights,
        form,
        about=request.POST.get("namespace", ""),
        template="console/pages/topic_new.html",
        context={},
    )
