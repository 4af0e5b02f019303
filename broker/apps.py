"""Django's handle on the broker. Nothing starts here: `manage.py runbroker` does that (design 3)."""

from django.apps import AppConfig


class BrokerConfig(AppConfig):
    """The broker: topics, subscriptions, what time drives."""

    name = "broker"
    default_auto_field = "django.db.models.BigAutoField"
