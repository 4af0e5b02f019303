"""The broker's app config for Django. It starts nothing; `manage.py runbroker` starts the broker."""

from importlib import import_module

from django.apps import AppConfig


class BrokerConfig(AppConfig):
    """The broker: topics, subscriptions and periodic work."""

    name = "broker"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the app's system checks."""
        import_module("broker.database_version")
