"""The addresses of `/api/v1`."""

from __future__ import annotations

from django.urls import path, re_path

import console.addresses  # noqa: F401 - registers the converter `name` for addresses
from console.api import acts
from console.api.alerts import operations as alerts
from console.api.app import api_of, patterns_of, unknown_address_of
from console.api.history import operations as history
from console.api.logs import messages, reads, story
from console.api.openapi import openapi
from console.api.pipeline import operations as pipeline
from console.api.topics import clients, diagnosis, namespaces, policies, topics

__all__ = ["api", "app_name", "urlpatterns"]

app_name = "api"
api = api_of(
    acts.router,
    topics.router,
    diagnosis.router,
    clients.router,
    history.router,
    namespaces.router,
    policies.router,
    messages.router,
    reads.router,
    story.router,
    pipeline.router,
    alerts.router,
)
urlpatterns = [
    path("openapi.json", openapi, {"api": api}, name="openapi"),
    *patterns_of(api),
    re_path("", unknown_address_of(api)),
]
