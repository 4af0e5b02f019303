"""One act on each partition of a partitioned topic."""

from __future__ import annotations

from vela.cli.act_flow import Asked
from vela.cli.console import ConsoleApi
from vela.cli.errors import CliError, Exit
from vela.cli.names import short_name, topic_path
from vela.core.topic_name import partition_name

__all__ = ["on_every_partition", "on_partitions_with_it"]


def on_partitions_with_it(api: ConsoleApi, asked: Asked) -> list[Asked]:
    """The act on the subscription of that name of each partition. Raises CliError when there is none."""
    rows = api.rows(f"{topic_path(asked.topic)}/subscriptions", "subscriptions", most=0)
    found = [row["topic"] for row in rows if row["name"] == asked.subscription]
    if not found:
        raise CliError(
            f"there is no subscription {asked.subscription} on {asked.topic}",
            Exit.NOTHING,
            code="NothingToActOn",
        )
    return [
        Asked(kind=asked.kind, topic=topic, subscription=asked.subscription, parameters=asked.parameters)
        for topic in sorted(found, key=lambda name: (len(name), name))
    ]


def on_every_partition(api: ConsoleApi, asked: Asked) -> list[Asked]:
    """The act on each partition, whatever is there already. Raises CliError for a topic that has none."""
    partitions = api.get(topic_path(asked.topic))["partitions"]
    if not partitions:
        raise CliError(
            f"{short_name(asked.topic)} is not partitioned: leave --all-partitions out", Exit.USAGE
        )
    return [
        Asked(
            kind=asked.kind,
            topic=partition_name(asked.topic, index),
            subscription=asked.subscription,
            parameters=asked.parameters,
        )
        for index in range(partitions)
    ]
