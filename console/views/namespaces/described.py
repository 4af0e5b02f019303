"""Describe the policies in force on a namespace or topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import Http404
from django.utils.translation import gettext as _

from broker.conf import broker_settings
from broker.topics.policies_in_force import DescribedPolicies, described_policies
from console.queries.topics.policies import TopicDocuments, topic_policies

__all__ = ["described_topic", "policies_of_namespace", "policies_of_topic"]


def policies_of_namespace(name: str, document: Mapping[str, object]) -> DescribedPolicies:
    """Describe the policies of a namespace."""
    return described_policies(broker_settings(), document, None, where=name, say=_)


def described_topic(name: str) -> tuple[TopicDocuments, DescribedPolicies]:
    """Find and describe the policies of a topic. Raises Http404 if the topic does not exist."""
    documents = topic_policies(name)
    if documents is None:
        raise Http404(_("There is no topic {name}.").format(name=name))
    return documents, described_policies(
        broker_settings(), documents.namespace, documents.own, where=name, say=_
    )


def policies_of_topic(name: str) -> dict[str, Any]:
    """Return the template context of a topic's policies. Raises Http404 if the topic does not exist."""
    documents, described = described_topic(name)
    return {"described": described, "subject": documents.parent_name or name, "parent": documents.parent_name}
