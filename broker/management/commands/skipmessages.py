"""`manage.py skipmessages` skips the next messages of a subscription."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from broker.management.act_command import ActCommand


class Command(ActCommand):
    help = "Skip the next N unacknowledged messages of a subscription, or --all of them (clears the backlog)."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        amount = parser.add_mutually_exclusive_group(required=True)
        amount.add_argument("--messages", type=int, metavar="N")
        amount.add_argument("--all", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["all"]:
            self.run_act("clear", {}, options)
        else:
            self.run_act("skip", {"messages": options["messages"]}, options)
