"""`manage.py resetcursor` moves a subscription's cursor."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser

from broker.management.act_command import ActCommand


class Command(ActCommand):
    help = "Reset a subscription's cursor. Its consumers are disconnected, and reconnect."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        target = parser.add_mutually_exclusive_group(required=True)
        target.add_argument("--earliest", action="store_true", help="the first message kept")
        target.add_argument("--latest", action="store_true", help="after the last message")
        target.add_argument(
            "--time", metavar="ISO", help="a time with its zone, as in 2026-11-20T09:00:00+00:00"
        )
        target.add_argument("--id", metavar="LEDGER:ENTRY[:PARTITION:INDEX]", help="this message comes next")
        target.add_argument(
            "--after-id",
            metavar="LEDGER:ENTRY[:PARTITION:INDEX]",
            help="the message after this one comes next",
        )
        target.add_argument(
            "--like", metavar="SUBSCRIPTION", help="the position of another subscription of the topic"
        )
        target.add_argument("--back-minutes", type=int, metavar="N")
        target.add_argument("--back-messages", type=int, metavar="N")
        target.add_argument("--forward-messages", type=int, metavar="N")

    def handle(self, *args: Any, **options: Any) -> None:
        self.run_act("reset", _parameters(options), options)


def _parameters(options: dict[str, Any]) -> dict[str, object]:
    if options["earliest"] or options["latest"]:
        return {"to": "earliest" if options["earliest"] else "latest"}
    if options["id"] is not None:
        return {"to": "id", "id": options["id"]}
    if options["after_id"] is not None:
        return {"to": "id", "id": options["after_id"], "inclusive": False}
    if options["like"] is not None:
        return {"to": "like", "like": options["like"]}
    if options["back_minutes"] is not None:
        return {"to": "back_time", "back_ms": options["back_minutes"] * 60_000}
    if options["back_messages"] is not None:
        return {"to": "shift", "messages": -options["back_messages"]}
    if options["forward_messages"] is not None:
        return {"to": "shift", "messages": options["forward_messages"]}
    try:
        time = datetime.fromisoformat(options["time"])
    except ValueError as error:
        raise CommandError(f"--time {options['time']!r}: write it as 2026-11-20T09:00:00+00:00") from error
    if time.tzinfo is None:
        raise CommandError(f"--time {options['time']!r} has no zone: add +00:00 for UTC")
    return {"to": "time", "time_ms": int(time.timestamp() * 1000)}
