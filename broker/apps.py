"""The broker's Django app. Starting Django does not start a broker."""

from importlib import import_module

from django.apps import AppConfig


class BrokerConfig(AppConfig):
    name = "broker"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        import_module("broker.database_version")  # Registers system checks
