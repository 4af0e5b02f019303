"""`manage.py runconsole`: the console's web server: Daphne over the project's ASGI application."""

from __future__ import annotations

import gc
from typing import Any

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.module_loading import import_string

from broker.conf import broker_settings
from broker.http_server import LimitedServer


class Command(BaseCommand):
    """Serve the console until SIGTERM."""

    help = "Serve the console (VELA_BIND, VELA_CONSOLE_PORT) until SIGTERM."
    requires_system_checks = ()  # `make check` has them; here they would cost each start

    def add_arguments(self, parser: CommandParser) -> None:
        """Both default to the settings."""
        parser.add_argument("--bind", default=broker_settings().bind)
        parser.add_argument("--port", type=int, default=broker_settings().console_port)

    def handle(self, *_args: Any, **options: Any) -> None:
        """Blocks; Daphne ends at SIGTERM and SIGINT."""
        server = LimitedServer(
            _application(),
            request_timeout_s=broker_settings().http_request_timeout_s,
            application_close_timeout=1,  # a page that listens for changes never ends by itself
            server_name="vela",
        )
        bind, port = options["bind"], options["port"]
        try:
            server.listen(bind, port)
        except OSError as error:
            reason = error.strerror or str(error)
            raise CommandError(
                f"cannot listen on {bind}:{port} ({reason}): set VELA_CONSOLE_PORT or VELA_BIND"
            ) from None
        server.run()
        gc.freeze()  # a process that ends need not look through its whole memory: 0.02 s of CPU instead of 0.3


def _application() -> Any:
    """What the project's ASGI_APPLICATION names; without one, Django's pages alone."""
    named = getattr(settings, "ASGI_APPLICATION", None)
    return import_string(named) if named else get_asgi_application()
