"""`manage.py runhandlers` calls the project's handlers until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.module_loading import autodiscover_modules

from broker.conf import EXIT_SETTING_INVALID, BrokerSettings, SettingInvalid, broker_settings
from broker.handlers.registry import Handler, registered
from broker.handlers.worker import client_of, run_handlers


class Command(BaseCommand):
    """Exits with 78 if a setting is invalid, and with 1 if a handler's name is unknown or no handler exists."""

    help = (
        "Run the functions marked with broker.handlers.handler in the handlers module of each installed app."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("names", nargs="*", help="app.handlers.function; without a name, all handlers")
        parser.add_argument(
            "--stop-timeout",
            type=float,
            default=10.0,
            help="seconds that calls under way have to end after SIGTERM or SIGINT",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        autodiscover_modules("handlers")
        handlers = _chosen(options["names"])
        try:
            settings = broker_settings()
            for each in handlers:
                self.stdout.write(f"{each.name}: {each.topic} as {each.subscription} ({each.type.value})")
            asyncio.run(_serve(handlers, settings, options["stop_timeout"]))
        except SettingInvalid as error:
            raise CommandError(str(error), returncode=EXIT_SETTING_INVALID) from None


def _chosen(names: list[str]) -> list[Handler]:
    known = registered()
    unknown = [name for name in names if name not in known]
    if unknown or not known:
        there = ", ".join(sorted(known)) or "none: put functions with @handler into an app's handlers.py"
        raise CommandError(f"no handler {', '.join(unknown) or 'is declared'}; there are {there}")
    return [known[name] for name in names] or list(known.values())


async def _serve(handlers: list[Handler], settings: BrokerSettings, stop_timeout_s: float) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    client = client_of(settings)
    await run_handlers(handlers, client, stopping=stopping, stop_timeout_s=stop_timeout_s)
