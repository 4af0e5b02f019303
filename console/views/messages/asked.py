"""Read the topic and the search from a page's address."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from django.http import Http404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.access import Rights
from console.messages.asked import Asked
from console.messages.form import FilterForm
from console.queries.topics.topic import TopicHead, topic_head

__all__ = ["asked_by", "head_of"]

_HIDDEN: Final = gettext_lazy("You need the reader role to search in keys, properties and payloads.")


def head_of(topic: str) -> TopicHead:
    """Return the topic. Raises Http404 if the topic does not exist."""
    head = topic_head(topic)
    if head is None:
        raise Http404(_("There is no topic {name}.").format(name=topic))
    return head


def asked_by(form: FilterForm, rights: Rights) -> Asked | None:
    """Return the search, or None if the form has errors."""
    if not form.is_valid():
        return None
    if form.asked.filters.is_set and not rights.may_see_payloads:
        form.add_error(None, _HIDDEN)
        return None
    return form.asked if rights.may_see_payloads else replace(form.asked, columns=())
