"""Operations on the one cluster and its one broker."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from django.http import HttpResponse
from ninja import Router
from pydantic import BaseModel, Field

from broker.core.access.permissions import Action
from broker.doors.admin.absent import why_absent
from broker.doors.admin.catalogue import Catalogue
from broker.doors.admin.operations import operation
from broker.doors.admin.refusals import Refused
from broker.doors.admin.request import AdminRequest
from broker.doors.admin.tenants import CLUSTER

__all__ = ["BUNDLE", "router"]

BUNDLE: Final = "0x00000000_0xffffffff"  # The whole hash ring
_BROKERS: Final = "/admin/v2/brokers"
_CLUSTER: Final = "/admin/v2/clusters/{segment:cluster}"
_API_VERSION: Final = "4.0.0"
_HEALTH_WAIT_S: Final = 5.0

router = Router()


class ClusterData(BaseModel):
    """The URLs of the cluster."""

    service_url: str = Field(serialization_alias="serviceUrl")
    broker_service_url: str = Field(serialization_alias="brokerServiceUrl")
    broker_service_url_tls: str = Field(serialization_alias="brokerServiceUrlTls")


class BrokerInfo(BaseModel):
    """The id and the URL of a broker."""

    broker_id: str = Field(serialization_alias="brokerId")
    service_url: str = Field(serialization_alias="serviceUrl")


def _text(text: str) -> HttpResponse:
    return HttpResponse(text, content_type="text/plain")


def _broker_id(request: AdminRequest) -> str:
    return request.broker.settings.advertised_http_url.partition("://")[2].rstrip("/")


def _require_cluster(cluster: str) -> None:
    if cluster != CLUSTER:
        raise Refused(404, f"Cluster does not exist; the only one is {CLUSTER}")


@operation(router, "GET", "/admin/v2/clusters", None)
async def get_clusters(request: AdminRequest) -> list[str]:
    """List the clusters. There is one."""
    return [CLUSTER]


@operation(router, "GET", _CLUSTER, None)
async def get_cluster(request: AdminRequest, cluster: str) -> ClusterData:
    """Return the URLs of the cluster."""
    _require_cluster(cluster)
    settings = request.broker.settings
    return ClusterData(
        service_url=settings.advertised_http_url,
        broker_service_url=settings.advertised_url,
        broker_service_url_tls=settings.advertised_tls_url,
    )


@operation(router, "GET", f"{_CLUSTER}/peers", Action.RULE)
async def get_peer_clusters(request: AdminRequest, cluster: str) -> list[str]:
    """List the peers of the cluster. There are none."""
    _require_cluster(cluster)
    return []


@operation(router, "GET", f"{_CLUSTER}/failureDomains", Action.RULE)
async def get_failure_domains(request: AdminRequest, cluster: str) -> dict[str, Any]:
    """Return the failure domains of the cluster. There are none."""
    _require_cluster(cluster)
    return {}


@operation(router, "GET", f"{_CLUSTER}/namespaceIsolationPolicies", Action.RULE)
async def get_isolation_policies(request: AdminRequest, cluster: str) -> dict[str, Any]:
    """Return the isolation policies of the cluster. There are none."""
    _require_cluster(cluster)
    return {}


@operation(router, "GET", _BROKERS, Action.RULE)
async def get_brokers(request: AdminRequest) -> list[str]:
    """List the brokers. There is only this one."""
    return [_broker_id(request)]


@operation(router, "GET", f"{_BROKERS}/leaderBroker", Action.RULE)
async def get_leader_broker(request: AdminRequest) -> BrokerInfo:
    """Return this broker."""
    return BrokerInfo(broker_id=_broker_id(request), service_url=request.broker.settings.advertised_http_url)


@operation(router, "GET", f"{_BROKERS}/health", None, media_type="text/plain")
async def get_health(request: AdminRequest) -> HttpResponse:
    """Answer `ok` if the broker serves clients and PostgreSQL answers."""
    _require_ready(request)
    try:
        async with asyncio.timeout(_HEALTH_WAIT_S):
            await Catalogue(request.broker).has_namespace("public", "default")
    except TimeoutError:
        raise Refused(500, "PostgreSQL does not answer") from None
    return _text("ok")


@operation(router, "GET", f"{_BROKERS}/ready", None, media_type="text/plain")
async def get_ready(request: AdminRequest) -> HttpResponse:
    """Answer `ok` if the broker serves clients."""
    ready, _ = request.broker.is_ready()
    return _text("ok") if ready else HttpResponse(status=500)


@operation(router, "GET", f"{_BROKERS}/version", None, media_type="text/plain")
async def get_version(request: AdminRequest) -> HttpResponse:
    """Return the version of Pulsar whose API Vela provides."""
    return _text(_API_VERSION)


@operation(router, "GET", f"{_BROKERS}/configuration", Action.RULE)
async def get_dynamic_configuration(request: AdminRequest) -> list[str]:
    """List the settings that can change while the broker runs. There are none."""
    return []


@operation(router, "GET", f"{_BROKERS}/configuration/values", Action.RULE)
async def get_dynamic_values(request: AdminRequest) -> dict[str, str]:
    """Return the settings that were changed since the broker started. There are none."""
    return {}


@operation(router, "GET", f"{_BROKERS}/configuration/runtime", Action.RULE)
async def get_runtime_configuration(request: AdminRequest) -> dict[str, str]:
    """Return some settings under their names in Pulsar, as strings."""
    settings = request.broker.settings
    asks = "true" if settings.asks_for_credentials else "false"
    return {
        "clusterName": CLUSTER,
        "maxMessageSize": str(settings.max_message_bytes),
        "authenticationEnabled": asks,
        "authorizationEnabled": asks,
    }


@operation(router, "GET", f"{_BROKERS}/{{segment:cluster}}", Action.RULE)
async def get_brokers_of_cluster(request: AdminRequest, cluster: str) -> list[str]:
    """List the brokers of the cluster. There is only this one."""
    if reason := why_absent(request.path):  # This route also matches /admin/v2/brokers/backlog-quota-check
        raise Refused(404, f"the admin API has no path {request.path}: {reason}")
    _require_cluster(cluster)
    return [_broker_id(request)]


@operation(router, "GET", f"{_BROKERS}/{{segment:cluster}}/{{segment:broker}}/ownedNamespaces", Action.RULE)
async def get_owned_namespaces(request: AdminRequest, cluster: str, broker: str) -> dict[str, Any]:
    """Return the namespaces with a topic in this broker's memory.

    Non-persistent topics do not count.
    """
    _require_cluster(cluster)
    names = sorted({each.name.namespace_name for each in request.broker.topics.all()})
    owned = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
    return {f"{name}/{BUNDLE}": owned for name in names}


def _require_ready(request: AdminRequest) -> None:
    ready, why_not = request.broker.is_ready()
    if not ready:
        raise Refused(500, why_not)
