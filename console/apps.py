"""The console as a Django app."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """The operator's pages."""

    name = "console"
    label = "console"

    def ready(self) -> None:
        """Connect the receivers of signals."""
        from console.people import sessions  # noqa: F401 - importing it connects
