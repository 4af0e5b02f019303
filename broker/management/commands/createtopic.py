"""`manage.py createtopic` creates a topic, and its tenant and namespace if necessary."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError, CommandParser

from broker.conf import broker_settings
from broker.core.errors import BrokerError
from broker.core.topic_name import MOST_PARTITIONS, TopicName
from broker.storage.connection import connect
from broker.storage.conninfo import conninfo
from broker.storage.topics import topics as store


class Command(BaseCommand):
    help = "Create a topic. With --partitions N it is partitioned; updatepartitions adds more later."
    requires_system_checks = ()  # The checks would slow down every call

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("topic", help="orders, or persistent://tenant/namespace/orders")
        parser.add_argument(
            "--partitions",
            type=int,
            default=0,
            help="number of partitions; 0 (default) means not partitioned",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            name = TopicName.parse(options["topic"])
            created = asyncio.run(_create(name, options["partitions"]))
        except (BrokerError, psycopg.Error) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(created)


async def _create(name: TopicName, partitions: int) -> str:
    if not 0 <= partitions <= MOST_PARTITIONS:
        raise CommandError(f"--partitions is {partitions}: it takes 0 to {MOST_PARTITIONS}")
    if name.partition is not None and partitions:
        raise CommandError(
            f"{name} is a partition itself: name the topic without -partition-{name.partition}"
        )
    settings = broker_settings()
    connection = await connect(conninfo(), name="createtopic")
    try:
        known = await store.find_topic(connection, name)
        if known is not None:
            if known.partitions != partitions:
                raise CommandError(f"{name} exists with {known.partitions} partitions; choose another name")
            return f"{name} exists already"
        await store.create_topic(
            connection,
            name,
            partitions=partitions,
            policies={
                "retention_ms": settings.default_retention_ms,
                "retention_bytes": settings.default_retention_bytes,
            },
        )
    finally:
        await connection.close()
    return f"created {name}" + (f" with {partitions} partitions" if partitions else "")
