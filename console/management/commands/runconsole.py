"""`manage.py runconsole`: the console's web server, Daphne over config.asgi."""

from __future__ import annotations

from typing import Any

from daphne.endpoints import build_endpoint_description_strings
from daphne.server import Server
from django.core.management.base import BaseCommand, CommandParser

from config.asgi import application
from config.environment import Environment


class Command(BaseCommand):
    """Serve the console until SIGTERM."""

    help = "Serves the console (VELA_BIND, VELA_CONSOLE_PORT) until it is told to stop."
    requires_system_checks = ()  # `make check` has them; here they would cost each start

    def add_arguments(self, parser: CommandParser) -> None:
        """Both default to the settings."""
        environment = Environment()
        parser.add_argument("--bind", default=environment.text("VELA_BIND", "127.0.0.1"))
        parser.add_argument("--port", type=int, default=environment.port("VELA_CONSOLE_PORT", 8000))

    def handle(self, *_args: Any, **options: Any) -> None:
        """Blocks; Daphne ends at SIGTERM and SIGINT."""
        Server(
            application=application,
            endpoints=build_endpoint_description_strings(host=options["bind"], port=options["port"]),
            application_close_timeout=1,  # a page that listens for changes never ends by itself
            server_name="vela",
        ).run()
