"""The form that sets policies of a namespace or a topic."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from broker.acts import requests as acts
from broker.topics.policies_in_force import DescribedPolicies
from console.access import Rights, admin_only, operator_only, plan
from console.blocks import page
from console.policies.form import PolicyForm
from console.views.namespaces.described import described_topic, policies_of_namespace
from console.views.namespaces.namespace import found_namespace

__all__ = ["namespace_policies", "topic_policies"]


@require_http_methods(["GET", "HEAD", "POST"])
@admin_only
def namespace_policies(request: HttpRequest, rights: Rights, tenant: str, namespace: str) -> HttpResponse:
    """Show the policy form of a namespace, or plan a change of its policies."""
    found = found_namespace(tenant, namespace)
    described = policies_of_namespace(found.full_name, found.policies)
    return _form(request, rights, "set_namespace_policies", found.full_name, described)


@require_http_methods(["GET", "HEAD", "POST"])
@operator_only
def topic_policies(request: HttpRequest, rights: Rights, topic: str) -> HttpResponse:
    """Show the policy form of a topic, or plan a change of its policies."""
    documents, described = described_topic(topic)
    if documents.parent_name:
        return redirect("console:topic_policies", documents.parent_name)
    return _form(request, rights, "set_topic_policies", topic, described)


def _form(
    request: HttpRequest, rights: Rights, kind: str, name: str, described: DescribedPolicies
) -> HttpResponse:
    status, refusal = 200, ""
    if request.method == "POST":
        form = PolicyForm(request.POST, described=described)
        status = 422
        if form.is_valid():
            try:
                planned = plan(request, rights, kind, topic=name, parameters=form.parameters())
            except acts.ActRefused as refused:
                status, refusal = 409, refused.text
            else:
                return redirect("console:act", planned.id)
    else:
        form = PolicyForm(described=described, initial=request.GET.dict())
    context = {"form": form, "subject": name, "refusal": refusal, "is_topic": "://" in name}
    nav = "topics" if "://" in name else "namespaces"
    return page(request, rights, "console/pages/policies.html", {**context, "nav": nav}, status=status)
