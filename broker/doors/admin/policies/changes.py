"""Read and change the policies of a namespace or a topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from broker.doors.admin.catalogue import Catalogue
from broker.doors.admin.policies.table import completed
from broker.topics.policies import Holder

if TYPE_CHECKING:
    from broker.core.topic_name import TopicName
    from broker.doors.admin.policies.table import Values
    from broker.doors.admin.request import AdminRequest

__all__ = ["change", "of_namespace", "of_topic", "values"]


async def of_namespace(request: AdminRequest, tenant: str, namespace: str) -> Holder:
    """Return the `Holder` of a namespace's policies. Raises Refused(404) or InvalidTopicName."""
    return Holder.of_namespace(await Catalogue(request.broker).require_namespace(tenant, namespace))


async def of_topic(request: AdminRequest, name: TopicName) -> Holder:
    """Return the `Holder` of a topic's policies. Raises TopicNotFound."""
    await Catalogue(request.broker).require(name)
    return Holder.of_topic(name)


async def values(request: AdminRequest, holder: Holder, *, applied: bool) -> Values:
    """Return the policies that are set on a holder. If `applied` is True, return all policies in force instead."""
    state = await request.broker.policies.documents.read(holder)
    in_force = asdict(state.in_force)
    return in_force if applied else completed(state.document, in_force)


async def change(
    request: AdminRequest,
    holder: Holder,
    *,
    to_set: Mapping[str, object] | None = None,
    to_unset: Iterable[str] = (),
) -> None:
    """Set and unset policies in one step. A value of None unsets a policy."""
    state = await request.broker.policies.documents.read(holder)
    given: dict[str, object] = {**dict.fromkeys(to_unset), **(to_set or {})}
    texts = {
        name: _text(value)
        for name, value in given.items()
        if value is not None and state.document.get(name) != value
    }
    unset = [name for name, value in given.items() if value is None and name in state.document]
    if not texts and not unset:
        return
    kind = "set_namespace_policies" if holder.topic is None else "set_topic_policies"
    await request.act(kind, topic=holder.name, parameters={"set": texts, "unset": ",".join(unset)})


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
