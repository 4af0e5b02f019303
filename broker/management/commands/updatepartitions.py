"""`manage.py updatepartitions` adds partitions to a partitioned topic."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from broker.management.topic_act_command import TopicActCommand


class Command(TopicActCommand):
    help = (
        "Add partitions to a partitioned topic. Clients see them when they ask next, within about a minute."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("topic", help="orders, or persistent://tenant/namespace/orders")
        parser.add_argument("partitions", type=int, help="number of partitions in all")
        self.add_consent(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        self.run_on(options["topic"], "update_partitions", {"partitions": options["partitions"]}, options)
