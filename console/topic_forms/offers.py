"""The acts in the menu of a topic's page. An act is a change that the broker makes on request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _

from console.access import Rights
from console.access.guards import refusal_of
from console.addresses import short_name, topic_act_url
from console.forms import ActForm
from console.queries.topics.topic import TopicHead
from console.topic_forms.life import (
    AddPartitionsForm,
    CompactForm,
    DeleteCompactionForm,
    DeleteTopicForm,
    TerminateForm,
    TruncateForm,
    UnloadForm,
)
from console.topic_forms.places import CreateBookmarkForm, CreateSubscriptionForm, DeleteBookmarkForm
from console.topic_forms.publish import PublishForm

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = ["Offer", "offers", "topic_forms"]

topic_forms: Final[dict[str, type[ActForm]]] = {
    "publish": PublishForm,
    "subscription": CreateSubscriptionForm,
    "bookmark": CreateBookmarkForm,
    "delete-bookmark": DeleteBookmarkForm,
    "partitions": AddPartitionsForm,
    "compact": CompactForm,
    "delete-compaction": DeleteCompactionForm,
    "unload": UnloadForm,
    "truncate": TruncateForm,
    "terminate": TerminateForm,
    "delete": DeleteTopicForm,
}
"""The form of each act, by the act's name in URLs."""

# The menu leaves these acts out. The page's lists of bookmarks and compactions offer them.
_FROM_ELSEWHERE: Final = ("delete-bookmark", "delete-compaction")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One act in the menu."""

    name: str
    heading: StrOrPromise
    url: str
    why_not: str = ""
    cure: str = ""  # Text of a link to a remedy
    cure_url: str = ""

    @property
    def is_possible(self) -> bool:
        return not self.why_not


def offers(head: TopicHead, rights: Rights) -> list[Offer]:
    """Return the menu's acts on this topic, including acts that are not possible now."""
    return [_offer(head, name, rights) for name in topic_forms if name not in _FROM_ELSEWHERE]


def _offer(head: TopicHead, name: str, rights: Rights) -> Offer:
    why_not, cure, cure_url = _obstacle(head, name)
    kind = topic_forms[name].kind
    if not rights.may_act_on(head.name, kind):
        why_not, cure, cure_url = refusal_of(head.name, kind), "", ""
    return Offer(
        name=name,
        heading=topic_forms[name].heading,
        url=topic_act_url(head.name, name),
        why_not=why_not,
        cure=cure,
        cure_url=cure_url,
    )


def _obstacle(head: TopicHead, name: str) -> tuple[str, str, str]:
    if name == "partitions" and head.parent_name:
        return (
            _("This is a partition."),
            _("Add partitions to its topic"),
            topic_act_url(head.parent_name, "partitions"),
        )
    if name == "partitions" and not head.partitions:
        return (
            _("The topic is not partitioned, and cannot become partitioned."),
            _("Create a partitioned topic"),
            _new_topic_beside(head, partitions=4),
        )
    if name == "publish" and head.terminated_at:
        return (
            _("The topic is terminated: it takes no more messages."),
            _("Create another topic"),
            _new_topic_beside(head, partitions=head.partitions),
        )
    if name == "terminate" and head.terminated_at:
        return _("The topic is already terminated."), "", ""
    if name == "delete" and head.parent_name:
        return (
            _("This is a partition, which is deleted with its topic."),
            _("Delete {name}").format(name=short_name(head.parent_name)),
            topic_act_url(head.parent_name, "delete"),
        )
    return "", "", ""


def _new_topic_beside(head: TopicHead, *, partitions: int) -> str:
    namespace = head.name.partition("://")[2].rsplit("/", 1)[0]
    tenant, _, rest = namespace.partition("/")
    asked = urlencode({"namespace": f"{tenant}/{rest.partition('/')[0]}", "partitions": partitions})
    return f"{reverse('console:topic_new')}?{asked}"
