"""Addresses of `/api/v1`; names in them as in the console's."""

from __future__ import annotations

from django.urls import path, re_path

import console.addresses  # noqa: F401 - registers how names are written in addresses
from console.api.acts import act, act_apply, act_undo, acts_view
from console.api.openapi import openapi
from console.api.policies import namespace_policies, topic_policies
from console.api.problems import no_such_address
from console.api.reads import analysed, examined, peeked
from console.api.topics import stats, subscription, subscriptions, topic, topic_stats, topics

app_name = "api"

urlpatterns = [
    path("openapi.json", openapi, name="openapi"),
    path("acts", acts_view, name="acts"),
    path("acts/<int:act_id>", act, name="act"),
    path("acts/<int:act_id>/apply", act_apply, name="act_apply"),
    path("acts/<int:act_id>/undo", act_undo, name="act_undo"),
    path("stats", stats, name="stats"),
    path("namespaces/<name:tenant>/<name:namespace>/policies", namespace_policies, name="namespace_policies"),
    path("topics", topics, name="topics"),
    path("topics/<topic:topic>", topic, name="topic"),
    path("topics/<topic:topic>/policies", topic_policies, name="topic_policies"),
    path("topics/<topic:topic>/stats", topic_stats, name="topic_stats"),
    path("topics/<topic:topic>/subscriptions", subscriptions, name="subscriptions"),
    path("topics/<topic:topic>/subscriptions/<name:name>", subscription, name="subscription"),
    path("topics/<topic:topic>/examine", examined, name="examine"),
    path("topics/<topic:topic>/subscriptions/<name:name>/peek", peeked, name="peek"),
    path("topics/<topic:topic>/subscriptions/<name:name>/backlog", analysed, name="backlog"),
    re_path("", no_such_address),
]
