"""`manage.py removesecondfactor`: remove the second factor of a user who lost it."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from broker.management.caller import caller
from console.access.changes import ChangeRefused
from console.access.factors import remove_factor


class Command(BaseCommand):
    """Remove a user's second factor."""

    help = "Remove a user's second factor and its recovery codes."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user")

    def handle(self, *_args: Any, **options: Any) -> None:
        name = options["user"]
        try:
            remove_factor(name, who=caller(), origin="command line")
        except ChangeRefused as refused:
            raise CommandError(str(refused)) from None
        self.stdout.write(f"{name} no longer has a second factor")
