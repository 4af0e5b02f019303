"""`manage.py runconsole`: the console's web server, Daphne with the project's ASGI application."""

from __future__ import annotations

import gc
from typing import Any

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.urls import get_resolver
from django.utils.module_loading import import_string

from broker import service_manager
from broker.conf import broker_settings
from broker.http_server import LimitedServer


class Command(BaseCommand):
    """Serve the console until SIGTERM."""

    help = "Serve the console (VELA_BIND, VELA_CONSOLE_PORT) until SIGTERM."
    requires_system_checks = ()  # `make check` runs them; here they would slow down each start

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --bind and --port, which default to the settings."""
        parser.add_argument("--bind", default=broker_settings().bind)
        parser.add_argument("--port", type=int, default=broker_settings().console_port)

    def handle(self, *_args: Any, **options: Any) -> None:
        """Block until SIGTERM or SIGINT. Raises CommandError if the port is taken."""
        server = LimitedServer(
            _application(),
            request_timeout_s=broker_settings().http_request_timeout_s,
            application_close_timeout=1,  # a live stream never ends by itself
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
        _ = get_resolver().url_patterns  # imports the views, so that they are loaded before the next step
        # Nearly every object that is alive now stays alive. To visit them all again takes longer than a page.
        gc.collect()
        gc.freeze()
        service_manager.tell(service_manager.READY)
        server.run()
        gc.freeze()  # the last garbage collection skips all objects: exit takes 0.02 s of CPU instead of 0.3 s


def _application() -> Any:
    """Return the project's ASGI_APPLICATION, or Django's own application if the project names none."""
    named = getattr(settings, "ASGI_APPLICATION", None)
    return import_string(named) if named else get_asgi_application()
