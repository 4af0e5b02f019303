"""`manage.py setpolicy` changes the policies of a namespace or a topic."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from broker.management.topic_act_command import TopicActCommand, is_namespace


class Command(TopicActCommand):
    help = "Set or unset policies of a namespace or a topic. The change takes effect at once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("where", help="tenant/namespace, or a topic")
        parser.add_argument(
            "policies", nargs="*", metavar="POLICY=VALUE", help="message_ttl_ms=1h retention_bytes=10GB"
        )
        parser.add_argument(
            "--unset",
            action="append",
            default=[],
            metavar="POLICY",
            help="remove the policy, so that the level above applies",
        )
        self.add_consent(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        to_set: dict[str, str] = {}
        for each in options["policies"]:
            name, separator, value = each.partition("=")
            if not separator:
                raise CommandError(f"{each!r}: write it as POLICY=VALUE")
            if name in to_set:
                raise CommandError(f"policy {name} is given twice")
            to_set[name] = value
        where = options["where"]
        kind = "set_namespace_policies" if is_namespace(where) else "set_topic_policies"
        self.run_on(where, kind, {"set": to_set, "unset": ",".join(options["unset"])}, options)
