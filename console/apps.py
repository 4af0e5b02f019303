"""The console as a Django app."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """The operator's pages."""

    name = "console"
    label = "console"

    def ready(self) -> None:
        from console.people import sessions  # noqa: F401 - importing the module connects its signal receivers
