"""`manage.py setrole`: give a role to a user, or remove a role."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from broker.management.caller import caller
from console.access.changes import ChangeRefused
from console.access.granting import set_role
from console.models import Role

NONE = "none"


class Command(BaseCommand):
    """Change one role of a user."""

    help = "Give a user a role for *, tenant/* or tenant/namespace, or remove it with the role none."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user")
        parser.add_argument("pattern", help="*, tenant/* or tenant/namespace")
        parser.add_argument("role", choices=[*(role.word for role in Role), NONE])

    def handle(self, *_args: Any, **options: Any) -> None:
        name, pattern, word = options["user"], options["pattern"], options["role"]
        role = None if word == NONE else Role[word.upper()]
        try:
            set_role(name, pattern, role, who=caller(), origin="command line")
        except ChangeRefused as refused:
            raise CommandError(str(refused)) from None
        self.stdout.write(
            f"{name} no longer has a role for {pattern}" if role is None else f"{name} is {word} of {pattern}"
        )
