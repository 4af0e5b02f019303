"""Pulsar's policies that this API refuses to change. A GET returns Pulsar's default."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any, Final

from ninja import Router

from broker.core.access.permissions import Action
from broker.doors.admin.catalogue import Catalogue, named
from broker.doors.admin.namespaces import NAMESPACE
from broker.doors.admin.operations import operation
from broker.doors.admin.refusals import Refused
from broker.doors.admin.request import AdminRequest
from broker.doors.admin.topics import TOPIC

__all__ = ["router"]

router = Router()

_PLACEHOLDER: Final = re.compile(r"\{\w+:(\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refused:
    path: str
    reason: str
    changes: tuple[str, ...] = ("POST", "DELETE")
    default: Any = None  # Answer to a GET. If None, the status is 204.


_BOOKIES: Final = "Vela stores messages in PostgreSQL: set up replication in PostgreSQL"
_NO_REPLICATION: Final = "Vela has one cluster and does not replicate topics"
_NO_OFFLOAD: Final = "set Vela's policies offload_after_ms and offload_threshold_bytes instead"
_NO_SUCH_POLICY: Final = "Vela has no such policy"

_OF_NAMESPACES: Final = (
    _Refused(path="persistence", reason=_BOOKIES),
    _Refused(path="replicatorDispatchRate", reason=_NO_REPLICATION),
    _Refused(path="subscribeRate", reason=_NO_SUCH_POLICY),
    _Refused(path="maxTopicsPerNamespace", reason=_NO_SUCH_POLICY, default=0),
    _Refused(path="deduplicationSnapshotInterval", reason=_NO_SUCH_POLICY),
    _Refused(path="offloadThreshold", reason=_NO_OFFLOAD, changes=("PUT",), default=-1),
    _Refused(path="offloadThresholdInSeconds", reason=_NO_OFFLOAD, changes=("PUT",), default=-1),
    _Refused(path="offloadDeletionLagMs", reason=_NO_OFFLOAD, changes=("PUT", "DELETE")),
    _Refused(path="offloadPolicies", reason=_NO_OFFLOAD, changes=("POST",)),
    _Refused(path="encryptionRequired", reason=_NO_SUCH_POLICY, changes=("POST",), default=False),
    _Refused(
        path="isAllowAutoUpdateSchema",
        reason="use schemaCompatibilityStrategy AUTO_UPDATE_DISABLED",
        changes=("POST",),
        default=True,
    ),
    _Refused(
        path="schemaAutoUpdateCompatibilityStrategy",
        reason="use schemaCompatibilityStrategy",
        changes=("PUT",),
    ),
    _Refused(path="subscriptionAuthMode", reason=_NO_SUCH_POLICY, changes=("POST",), default="None"),
    _Refused(path="subscriptionTypesEnabled", reason=_NO_SUCH_POLICY, default=[]),
    _Refused(path="antiAffinity", reason="Vela runs one broker"),
    _Refused(path="resourcegroup", reason=_NO_SUCH_POLICY),
    _Refused(path="entryFilters", reason="set VELA_ENTRY_FILTERS instead"),
    _Refused(path="properties", reason=_NO_SUCH_POLICY, changes=("PUT", "DELETE"), default={}),
)
_OF_TOPICS: Final = (
    _Refused(path="persistence", reason=_BOOKIES),
    _Refused(path="replication", reason=_NO_REPLICATION),
    _Refused(path="replicatorDispatchRate", reason=_NO_REPLICATION),
    _Refused(path="shadowTopics", reason=_NO_REPLICATION, changes=("PUT", "DELETE"), default=[]),
    _Refused(path="subscribeRate", reason=_NO_SUCH_POLICY),
    _Refused(path="deduplicationSnapshotInterval", reason=_NO_SUCH_POLICY),
    _Refused(path="offloadPolicies", reason=_NO_OFFLOAD),
    _Refused(path="subscriptionTypesEnabled", reason=_NO_SUCH_POLICY),
    _Refused(path="entryFilters", reason="set VELA_ENTRY_FILTERS instead"),
    _Refused(
        path="subscription/{segment:subscription}/replicatedSubscriptionStatus",
        reason=_NO_REPLICATION,
        changes=("POST",),
        default={},
    ),
)


def _add(level: str, base: str, each: _Refused) -> None:
    path = f"{base}/{each.path}"

    async def get(request: AdminRequest, **names: str) -> Any:
        catalogue = Catalogue(request.broker)
        if level == "namespace":
            await catalogue.require_namespace(names["tenant"], names["namespace"])
        else:
            await catalogue.require(
                named(names["domain"], names["tenant"], names["namespace"], names["topic"])
            )
        return each.default

    async def refuse(request: AdminRequest, **names: str) -> None:
        raise Refused(405, each.reason)

    name = _PLACEHOLDER.sub(r"\1", each.path).replace("/", "_")
    get.__name__ = f"get_default_{level}_{name}"
    get.__doc__ = "Return Pulsar's default."
    operation(router, "GET", path, Action.ADMINISTER)(_taking(get, path, Any))
    for method in each.changes:
        refuse.__name__ = f"refuse_{method.lower()}_{level}_{name}"
        refuse.__doc__ = "Refuse."
        operation(router, method, path, Action.ADMINISTER, refused=each.reason)(_taking(refuse, path, None))


def _taking(view: Any, path: str, returned: Any) -> Any:
    parameters = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=str)
        for name in _PLACEHOLDER.findall(path)
    ]
    asked = inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=AdminRequest)
    view.__signature__ = inspect.Signature([asked, *parameters], return_annotation=returned)
    return view


for each in _OF_NAMESPACES:
    _add("namespace", NAMESPACE, each)
for each in _OF_TOPICS:
    _add("topic", TOPIC, each)
