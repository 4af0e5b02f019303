"""Convert Pulsar's backlog quotas to Vela's policies and back.

The size quota and the age quota share the policy `backlog_quota_policy`.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import TypeAdapter, ValidationError

from broker.doors.admin.policies.shapes import BacklogQuota
from broker.doors.admin.policies.table import Values, rounded_up
from broker.doors.admin.refusals import Refused

__all__ = ["QuotaType", "names_of", "quota_map", "write_map", "write_quota"]

QuotaType = Literal["destination_storage", "message_age"]

_NAMES: Final[dict[QuotaType, str]] = {
    "destination_storage": "backlog_quota_bytes",
    "message_age": "backlog_quota_ms",
}
_DEFAULT_POLICY: Final = "producer_request_hold"
_MAP: Final = TypeAdapter(dict[QuotaType, BacklogQuota])


def quota_map(found: Values) -> dict[str, BacklogQuota]:
    """Return the backlog quotas by type."""
    policy = found.get("backlog_quota_policy", _DEFAULT_POLICY)
    quotas: dict[str, BacklogQuota] = {}
    if found.get("backlog_quota_bytes", -1) >= 0:
        size = found["backlog_quota_bytes"]
        quotas["destination_storage"] = BacklogQuota(limit=size, limitSize=size, limitTime=-1, policy=policy)
    if found.get("backlog_quota_ms", -1) >= 0:
        time_s = rounded_up(found["backlog_quota_ms"], 1000)
        quotas["message_age"] = BacklogQuota(limit=-1, limitSize=-1, limitTime=time_s, policy=policy)
    return quotas


def names_of(kind: QuotaType, found: Values) -> list[str]:
    """Return the names of the policies to unset when a quota is removed."""
    is_alone = not _others(kind, found)
    return [_NAMES[kind], *(["backlog_quota_policy"] if is_alone else [])]


def _others(kind: QuotaType, found: Values) -> list[QuotaType]:
    return [each for each, name in _NAMES.items() if each != kind and found.get(name, -1) >= 0]


def write_quota(given: BacklogQuota, kind: QuotaType, found: Values) -> dict[str, object]:
    """Return the policies that set one quota.

    Raises Refused(412) if the other quota has a different `policy`.
    """
    others = _others(kind, found)
    now = found.get("backlog_quota_policy", _DEFAULT_POLICY)
    if others and given.policy not in (None, now):
        raise Refused(
            412,
            f"the quota {others[0]} has the policy {now}, and Vela has one policy for both: send {now},"
            f" or remove {others[0]} first",
        )
    size = given.limitSize if given.limitSize is not None else given.limit
    if kind == "destination_storage":
        limit = -1 if size is None else size
    else:
        limit = -1 if given.limitTime is None or given.limitTime < 0 else given.limitTime * 1000
    values: dict[str, object] = {_NAMES[kind]: max(-1, limit)}
    if given.policy is not None:
        values["backlog_quota_policy"] = given.policy
    return values


def write_map(given: object) -> dict[str, object]:
    """Return the policies that set the quotas of a `backlog_quota_map`.

    Raises Refused(400) if the map is malformed, and Refused(412) if its quotas differ in `policy`.
    """
    try:
        quotas = _MAP.validate_python(given)
    except ValidationError as error:
        raise Refused(400, f"backlog_quota_map: {error.errors()[0]['msg']}") from error
    values: dict[str, object] = {}
    for kind, quota in quotas.items():
        values |= write_quota(quota, kind, values)
    return values
