"""`manage.py showpolicy` shows the policies in force on a namespace or a topic."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError, CommandParser

from broker.conf import broker_settings
from broker.core.errors import BrokerError
from broker.core.policies import FIELDS
from broker.core.topic_name import TopicName
from broker.management.topic_act_command import is_namespace
from broker.storage.conninfo import conninfo
from broker.storage.pool import ConnectionPool
from broker.topics.policies import Holder, PolicyDocuments, PolicyState


class Command(BaseCommand):
    help = "Show the policies in force on a namespace or a topic."
    requires_system_checks = ()  # The checks would slow down every call

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("where", help="tenant/namespace, or a topic")

    def handle(self, *args: Any, **options: Any) -> None:
        where = options["where"]
        try:
            holder = (
                Holder.of_namespace(where) if is_namespace(where) else Holder.of_topic(TopicName.parse(where))
            )
            state = asyncio.run(_read(holder))
        except (BrokerError, psycopg.Error) as error:
            raise CommandError(str(error)) from error
        for name, value in asdict(state.in_force).items():
            shown = FIELDS[name].words(value)
            if name in state.document:
                source = f"  set on this {holder.level}"
            elif name in state.above:
                source = "  set on its namespace"
            else:
                source = ""
            self.stdout.write(f"{name} = {shown}{source}")


async def _read(holder: Holder) -> PolicyState:
    pool = ConnectionPool(conninfo(), name="showpolicy", size=1)
    try:
        return await PolicyDocuments(pool, broker_settings()).read(holder)
    finally:
        await pool.close()
