"""Policies in force on a topic or a namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ninja import Path, Router
from ninja.decorators import decorate_view

from broker.acts.requests import ActRefused, full_name
from broker.conf import broker_settings
from broker.topics.policies_in_force import described_policies
from console.api.access import AuthorizedRequest
from console.api.answers import PoliciesInForce
from console.api.app import read
from console.api.conditional import with_etag
from console.api.found import found_topic
from console.api.parameters import TopicPath
from console.api.problems import Problem
from console.api.topics.topics import TOPIC
from console.queries.topics.policies import namespace_policies as set_on_namespace

__all__ = ["router"]

router = Router()


@read(router, f"{TOPIC}/policies", response=PoliciesInForce)
@decorate_view(with_etag)
def topic_policies(request: AuthorizedRequest, topic: Path[TopicPath]) -> dict[str, Any]:
    """Show the policies in force on a topic.

    A partition has the policies of its partitioned topic.
    """
    found = found_topic(topic.full_name)
    return _in_force(found.name, found.namespace_policies, found.policies)


@read(router, "/namespaces/{name:tenant}/{name:namespace}/policies", response=PoliciesInForce)
@decorate_view(with_etag)
def namespace_policies(request: AuthorizedRequest, tenant: str, namespace: str) -> dict[str, Any]:
    """Show the policies in force on a namespace."""
    name = f"{tenant}/{namespace}"
    document = set_on_namespace(tenant, namespace)
    if document is None:
        try:
            full_name("set_namespace_policies", name)
        except ActRefused as refused:
            raise Problem(400, refused.code, refused.text) from refused
        raise Problem(404, "NamespaceNotFound", f"there is no namespace {name}")
    return _in_force(name, document, None)


def _in_force(
    where: str, namespace: Mapping[str, object], topic: Mapping[str, object] | None
) -> dict[str, Any]:
    found = described_policies(broker_settings(), namespace, topic, where=where)
    return {
        "name": where,
        "words": found.sentences,
        "policies": [
            {"name": each.name, "value": each.value, "words": each.words, "set_on": each.set_on}
            for each in found.policies
        ],
    }
