"""Create and delete namespaces."""

from __future__ import annotations

from typing import Final

from broker.acts.kinds.base import ActContext, Scope
from broker.acts.kinds.direct import DirectKind, Effect
from broker.acts.kinds.parameters import ActInvalid, NoParameters
from broker.core.counted import counted
from broker.core.policies import kept
from broker.core.topic_name import parse_namespace
from broker.storage.pool import repeat_until_done
from broker.storage.topics import namespaces as store
from vela.wire.topic_name import DEFAULT_NAMESPACE

__all__ = ["CreateNamespace", "DeleteNamespace"]

_NO_TENANT: Final = "its tenant, {}, has no other namespace and is {} with it"


async def _found(context: ActContext) -> store.FoundNamespace:
    tenant, namespace = parse_namespace(context.act.topic_name)
    return await repeat_until_done(
        context.pool, lambda c: store.find(c, tenant, namespace), what="finding a namespace"
    )


class CreateNamespace(DirectKind[NoParameters]):
    """Create a namespace."""

    name = "create_namespace"
    summary = "Create a namespace, and its tenant if it does not exist."
    scope = Scope.NEW_NAMESPACE
    no_undo = "to undo it, delete the namespace"
    parameters = NoParameters

    async def measure(self, context: ActContext, given: NoParameters) -> Effect:
        name, found = context.act.topic_name, await _found(context)
        # Apply the act even if the namespace exists, because a client or an earlier attempt may have created it.
        if found.exists and not context.act.is_apply:
            raise ActInvalid(f"namespace {name} already exists; choose another name")
        policies = context.tools.creation.policies_of_new_namespace()
        notes = [
            f"messages that every subscription has acked are {kept(policies)}, until you set its policies"
        ]
        if not found.namespaces_of_tenant and not found.is_tenant_kept:
            notes.insert(0, _NO_TENANT.format(name.partition("/")[0], "created"))
        return Effect(words=(f"namespace {name} is created",), notes=tuple(notes))

    async def carry_out(self, context: ActContext, given: NoParameters) -> None:
        await context.tools.creation.make_namespace(*parse_namespace(context.act.topic_name))


class DeleteNamespace(DirectKind[NoParameters]):
    """Delete a namespace that has no topics."""

    name = "delete_namespace"
    summary = (
        "Delete a namespace without topics, and its tenant if that has no other and the admin API did not create or"
        " change it."
    )
    scope = Scope.NAMESPACE
    no_undo = "it cannot be undone: the policies of the namespace are gone"
    parameters = NoParameters

    async def measure(self, context: ActContext, given: NoParameters) -> Effect:
        name, found = context.act.topic_name, await _found(context)
        if name == DEFAULT_NAMESPACE:
            raise ActInvalid(f"{name} cannot be deleted: short topic names belong to it")
        if found.topics:
            topics = counted(found.topics, "topic", "topics")
            raise ActInvalid(f"namespace {name} has {topics}: delete the topics first")
        notes = []
        if found.namespaces_of_tenant == 1 and not found.is_tenant_kept:
            notes.append(_NO_TENANT.format(name.partition("/")[0], "deleted"))
        if await context.tools.creation.namespace_makes_topics(*parse_namespace(name)):
            notes.append("a client that connects to a topic there creates the namespace again")
        return Effect(words=(f"namespace {name} is deleted, with its policies",), notes=tuple(notes))

    async def carry_out(self, context: ActContext, given: NoParameters) -> None:
        tenant, namespace = parse_namespace(context.act.topic_name)
        await repeat_until_done(
            context.pool, lambda c: store.delete(c, tenant, namespace), what="deleting a namespace"
        )
        if (found := await _found(context)).exists:
            raise ActInvalid(
                f"namespace {context.act.topic_name} has {counted(found.topics, 'new topic', 'new topics')}: delete the"
                " topics first"
            )
