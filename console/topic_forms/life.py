"""The forms that create, change and delete topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from broker.acts import requests as acts
from console.forms import ActForm
from console.topic_forms.labels import read_lines

__all__ = [
    "AddPartitionsForm",
    "CompactForm",
    "CreateTopicForm",
    "DeleteCompactionForm",
    "DeleteTopicForm",
    "TerminateForm",
    "TruncateForm",
    "UnloadForm",
]

_MOST_PARTITIONS = 10_000
_PARTITIONS_ERRORS = {
    "required": gettext_lazy("Give the number of partitions."),
    "invalid": gettext_lazy("Give a whole number."),
    "max_value": format_lazy(gettext_lazy("At most {most:,} partitions."), most=_MOST_PARTITIONS),
}


class _TopicForm(ActForm):
    template = "console/forms/fields.html"


class CreateTopicForm(_TopicForm):
    """Create a topic in a namespace."""

    kind = "create_topic"
    heading = gettext_lazy("Create a topic")
    lead = gettext_lazy("Create a topic before any client connects to it.")

    namespace = forms.ChoiceField(
        label=gettext_lazy("Namespace"),
        error_messages={
            "required": gettext_lazy("Choose a namespace."),
            "invalid_choice": gettext_lazy("Choose one of the namespaces."),
        },
    )
    name = forms.CharField(
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("what comes after the namespace"),
        strip=False,
        error_messages={"required": gettext_lazy("Give the topic a name.")},
    )
    partitions = forms.IntegerField(
        label=gettext_lazy("Partitions"),
        help_text=gettext_lazy("0: not partitioned"),
        min_value=0,
        max_value=_MOST_PARTITIONS,
        initial=0,
        error_messages={**_PARTITIONS_ERRORS, "min_value": gettext_lazy("0 or more.")},
    )
    policies = forms.CharField(
        label=gettext_lazy("First policies"),
        help_text=gettext_lazy("optional, one per line, for example message_ttl_ms = 60000"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
    )

    def __init__(self, *args: Any, namespaces: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["namespace"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(name, name) for name in namespaces]

    def clean_policies(self) -> dict[str, str]:
        return read_lines(self.cleaned_data["policies"])

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        name, namespace = given.get("name"), given.get("namespace")
        if name and namespace:
            if "/" in name:
                self.add_error("name", _("A name has no slash: give only what comes after the namespace."))
            else:
                try:
                    acts.check_topic_name(f"persistent://{namespace}/{name}")
                except acts.ActRefused as refused:
                    self.add_error("name", refused.text)
        return given

    def parameters(self) -> dict[str, Any]:
        given = self.cleaned_data
        chosen: dict[str, Any] = {"name": given["name"], "partitions": given["partitions"]}
        return {**chosen, "policies": given["policies"]} if given["policies"] else chosen


class AddPartitionsForm(_TopicForm):
    """Add partitions to a partitioned topic."""

    kind = "update_partitions"
    heading = gettext_lazy("Add partitions")
    lead = gettext_lazy(
        "Add partitions, each with the subscriptions that the others have. You cannot remove partitions"
        " later."
    )

    partitions = forms.IntegerField(
        label=gettext_lazy("Partitions"),
        help_text=gettext_lazy("in total, including the existing ones"),
        min_value=1,
        max_value=_MOST_PARTITIONS,
        error_messages={**_PARTITIONS_ERRORS, "min_value": gettext_lazy("At least 1 partition.")},
    )

    def parameters(self) -> dict[str, Any]:
        return {"partitions": self.cleaned_data["partitions"]}


class TerminateForm(_TopicForm):
    """Terminate a topic."""

    kind = "terminate"
    heading = gettext_lazy("Terminate")
    lead = gettext_lazy(
        "End the topic: it takes no more messages, and this cannot be undone. Consumers are notified once they"
        " have acked everything."
    )


class TruncateForm(_TopicForm):
    """Empty a topic."""

    kind = "truncate"
    heading = gettext_lazy("Truncate")
    lead = gettext_lazy("Empty the topic: every subscription skips the messages that are stored now.")


class CompactForm(_TopicForm):
    """Compact a topic."""

    kind = "compact"
    heading = gettext_lazy("Compact")
    lead = gettext_lazy(
        "Keep the latest message of each key for the readers and consumers that ask for the compacted topic. All others"
        " get every message, as before."
    )


class DeleteCompactionForm(_TopicForm):
    """Delete the compacted copy of a topic."""

    kind = "delete_compaction"
    heading = gettext_lazy("Delete compaction")
    lead = gettext_lazy(
        "Delete the compacted topic. Its readers get the log instead, and messages that are not compacted yet may be"
        " trimmed like any others."
    )


class UnloadForm(_TopicForm):
    """Remove a topic from the broker's memory."""

    kind = "unload"
    heading = gettext_lazy("Unload")
    lead = gettext_lazy(
        "Remove the topic from the broker's memory. Its clients reconnect and load it again; nothing is lost."
    )


class DeleteTopicForm(_TopicForm):
    """Delete a topic."""

    kind = "delete_topic"
    heading = gettext_lazy("Delete")
    lead = gettext_lazy("Delete the topic and its messages permanently.")

    subscriptions = forms.BooleanField(
        required=False,
        label=gettext_lazy("Delete its subscriptions too"),
        help_text=gettext_lazy("without this, the broker refuses while the topic has a subscription"),
    )
    force = forms.BooleanField(
        required=False,
        label=gettext_lazy("Disconnect its clients and delete its subscriptions"),
        help_text=gettext_lazy("without this, the broker refuses while a client is connected"),
    )

    def parameters(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in ("force", "subscriptions")}
