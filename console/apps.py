"""The console as a Django app."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """The operator's pages."""

    name = "console"
    label = "console"
