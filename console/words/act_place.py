"""The link that leads back from an act's page to what the act changed.

An act is a logged change, such as a cursor reset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.urls import reverse
from django.utils.translation import gettext as _

from console.addresses import namespace_url, short_name, subscription_url, topic_url
from console.words.acts import OF_USERS

if TYPE_CHECKING:
    from broker.acts.requests import ActView

__all__ = ["DELETING_SUBSCRIPTIONS", "ActPlace", "place_of"]

DELETING_SUBSCRIPTIONS: Final = frozenset(("delete_subscription", "unsubscribe", "expire_subscription"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ActPlace:
    """A link to a page."""

    name: str
    url: str


def place_of(act: ActView) -> ActPlace:
    """Return a link to what the act changed: a subscription, a topic or a namespace.

    If the subscription, topic or namespace does not exist, the link leads to a page above it, such as the topic of a
    deleted subscription. For an act on a user, the link leads to the list of all acts.
    """
    is_applied = act.state == "applied"
    if act.kind in OF_USERS:
        return ActPlace(name=_("the acts"), url=reverse("console:acts"))
    made = str(act.parameters.get("name", ""))
    if act.kind == "create_topic" and is_applied:
        domain = act.parameters.get("domain", "persistent")
        return ActPlace(name=made, url=topic_url(f"{domain}://{act.topic}/{made}"))
    if "://" not in act.topic:
        exists = {"create_namespace": is_applied, "delete_namespace": not is_applied}.get(act.kind, True)
        if exists:
            return ActPlace(name=act.topic, url=namespace_url(act.topic))
        return ActPlace(name=_("the namespaces"), url=reverse("console:namespaces"))
    if act.kind == "delete_topic" and is_applied:
        return ActPlace(name=_("the topics"), url=reverse("console:topics"))
    if act.kind == "create_subscription" and is_applied:
        return ActPlace(name=made, url=subscription_url(act.topic, made))
    if act.subscription and not (act.kind in DELETING_SUBSCRIPTIONS and is_applied):
        return ActPlace(name=act.subscription, url=subscription_url(act.topic, act.subscription))
    tab = "?tab=bookmarks" if act.kind in ("create_bookmark", "delete_bookmark") else ""
    return ActPlace(name=short_name(act.topic), url=topic_url(act.topic) + tab)
