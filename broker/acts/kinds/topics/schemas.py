"""Delete the schema of a topic."""

from __future__ import annotations

from broker.acts.kinds.base import ActContext, Scope
from broker.acts.kinds.direct import DirectKind, Effect
from broker.acts.kinds.parameters import NoParameters
from broker.core.counted import counted
from broker.core.errors import SchemaNotFound
from broker.core.topic_name import TopicName

__all__ = ["DeleteSchema"]


class DeleteSchema(DirectKind[NoParameters]):
    """Delete a topic's schema."""

    name = "delete_schema"
    summary = "Delete a topic's schema, so that the next producer can store any other."
    scope = Scope.TOPIC
    can_be_requested = False  # Only the admin API creates this act, so `requests.plan` refuses it
    no_undo = "to undo it, store the schema again, as a new version"
    parameters = NoParameters

    async def measure(self, context: ActContext, given: NoParameters) -> Effect:
        name = TopicName.parse(context.act.topic_name).base
        versions = await context.tools.schemas.versions(name)
        # Apply the act even if there is no schema, because an earlier attempt may have deleted it.
        if not versions and not context.act.is_apply:
            raise SchemaNotFound(f"{name} does not have a schema")
        count = counted(len(versions), "version is", "versions are")
        return Effect(
            words=(f"{name} has no schema any more; {count} kept for the messages that are stored",)
        )

    async def carry_out(self, context: ActContext, given: NoParameters) -> None:
        name = TopicName.parse(context.act.topic_name).base
        if await context.tools.schemas.versions(name):
            await context.tools.schemas.delete(name)
