"""Topic lookup over HTTP, for clients whose service URL begins with http:// or https://."""

from __future__ import annotations

from typing import Final

from django.http import HttpResponse
from ninja import Router
from pydantic import BaseModel, Field

from broker.core.access.permissions import Action
from broker.doors.admin.brokers import BUNDLE
from broker.doors.admin.catalogue import named
from broker.doors.admin.operations import operation
from broker.doors.admin.refusals import Refused
from broker.doors.admin.request import AdminRequest

__all__ = ["LookupData", "router"]

_TOPIC: Final = "/lookup/v2/topic/{domain:domain}/{segment:tenant}/{segment:namespace}/{segment:topic}"

router = Router()


class LookupData(BaseModel):
    """The URLs of the broker that serves a topic. The C++ client needs every URL."""

    broker_url: str = Field(serialization_alias="brokerUrl")
    broker_url_tls: str = Field(serialization_alias="brokerUrlTls")
    http_url: str = Field(serialization_alias="httpUrl")
    http_url_tls: str = Field(serialization_alias="httpUrlTls")
    native_url: str = Field(serialization_alias="nativeUrl")


@operation(router, "GET", _TOPIC, Action.LOOK_UP)
async def lookup_topic(
    request: AdminRequest,
    domain: str,
    tenant: str,
    namespace: str,
    topic: str,
    listenerName: str = "",  # noqa: N803 - Pulsar's name
) -> LookupData:
    """Return the URLs of the broker that serves a topic. The topic need not exist."""
    named(domain, tenant, namespace, topic)
    ready, why_not = request.broker.is_ready()
    if not ready:
        raise Refused(503, why_not)
    listener = listenerName or request.headers.get("X-Pulsar-ListenerName", "")
    if listener:
        raise Refused(404, f"the broker has no listener {listener!r}: connect without a listener name")
    settings = request.broker.settings
    return LookupData(
        broker_url=settings.advertised_url,
        broker_url_tls=settings.advertised_tls_url,
        http_url=settings.advertised_http_url,
        http_url_tls=settings.https_url,
        native_url=settings.advertised_url,
    )


@operation(router, "GET", f"{_TOPIC}/bundle", Action.LOOK_UP, media_type="text/plain")
async def lookup_bundle(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str
) -> HttpResponse:
    """Return the bundle of a topic. Vela has one bundle for everything."""
    named(domain, tenant, namespace, topic)
    return HttpResponse(BUNDLE, content_type="text/plain")
