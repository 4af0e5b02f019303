"""Policies in force on a topic or a namespace, and where each is set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.http import HttpRequest, HttpResponseBase

from broker.acts.requests import ActRefused, full_name
from broker.conf import broker_settings
from broker.topics.policies_in_force import effective_policies
from console.access import Rights
from console.api.access import api
from console.api.conditional import conditional
from console.api.found import found_topic
from console.api.problems import Problem
from console.queries.policies import namespace_policies as set_on_namespace

__all__ = ["namespace_policies", "topic_policies"]


@api("GET", "HEAD")
def topic_policies(request: HttpRequest, rights: Rights, topic: str) -> HttpResponseBase:
    """Of a partition those of its topic. One query."""
    found = found_topic(topic)
    return conditional(request, _in_force(found.name, found.namespace_policies, found.policies))


@api("GET", "HEAD")
def namespace_policies(request: HttpRequest, rights: Rights, tenant: str, namespace: str) -> HttpResponseBase:
    """What its topics have that set nothing themselves. One query."""
    name = f"{tenant}/{namespace}"
    document = set_on_namespace(tenant, namespace)
    if document is None:
        try:
            full_name("set_namespace_policies", name)
        except ActRefused as refused:
            raise Problem(400, refused.code, refused.text) from refused
        raise Problem(404, "NamespaceNotFound", f"there is no namespace {name}")
    return conditional(request, _in_force(name, document, {}))


def _in_force(where: str, namespace: Mapping[str, object], topic: Mapping[str, object]) -> dict[str, Any]:
    values = asdict(effective_policies(broker_settings(), namespace, topic, where=where))
    return {
        "name": where,
        "policies": [
            {
                "name": name,
                "value": value,
                "set_on": "topic" if name in topic else "namespace" if name in namespace else None,
            }
            for name, value in values.items()
        ],
    }
