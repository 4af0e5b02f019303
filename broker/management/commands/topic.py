"""`manage.py topic` terminates, truncates, unloads or deletes a topic."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from broker.management.topic_act_command import TopicActCommand

_KINDS = {"terminate": "terminate", "truncate": "truncate", "unload": "unload", "delete": "delete_topic"}


class Command(TopicActCommand):
    """If the topic is partitioned, the command changes all its partitions."""

    help = "Terminate, truncate, unload or delete a topic. The plan says what is lost. You cannot undo any of these."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=list(_KINDS))
        parser.add_argument("topic", help="orders, or persistent://tenant/namespace/orders")
        parser.add_argument(
            "--force", action="store_true", help="delete: close clients and delete subscriptions"
        )
        parser.add_argument(
            "--subscriptions",
            action="store_true",
            help="delete: delete subscriptions without consumers too",
        )
        self.add_consent(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        parameters: dict[str, object] = {}
        if options["action"] == "delete":
            parameters = {"force": options["force"], "subscriptions": options["subscriptions"]}
        elif options["force"] or options["subscriptions"]:
            raise CommandError("--force and --subscriptions go with delete")
        self.run_on(options["topic"], _KINDS[options["action"]], parameters, options)
