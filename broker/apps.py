"""Django's handle on the broker. Nothing starts here: `manage.py runbroker` does that."""

from importlib import import_module

from django.apps import AppConfig


class BrokerConfig(AppConfig):
    """The broker: topics, subscriptions, what time drives."""

    name = "broker"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Registers the app's system checks."""
        import_module("broker.checks")
