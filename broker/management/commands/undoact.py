"""`manage.py undoact` undoes an act, if no later act has moved the same cursor. An act is a recorded change."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from broker.acts import requests as acts
from broker.management.act_command import ActCommand
from broker.management.caller import caller


class Command(ActCommand):
    help = "Undo the latest act on a cursor: put the cursor back, and keep everything that was acknowledged since."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("act", type=int, help="the act's number")
        self.add_consent(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        self.plan_and_apply(
            lambda: acts.plan_undo(
                options["act"], who=caller(), origin="command line", reason=options["reason"]
            ),
            options,
        )
