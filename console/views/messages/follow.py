"""The page that shows a topic's new messages as they arrive."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.blocks import Source, answer
from console.messages.asked import AskedInvalid
from console.queries.topics.topic import TopicHead
from console.tail.follow import MOST_FOLLOWED, Followed, follow
from console.tail.form import FollowForm
from console.views.messages.asked import asked_by, head_of
from console.words.messages import filter_words, followed

__all__ = ["follow_messages"]

STOP_AFTER_S = 600


@require_safe
@viewer
def follow_messages(request: HttpRequest, rights: Rights, topic: str) -> HttpResponse:
    """Show a topic's new messages."""
    head = head_of(topic)
    form = FollowForm(request.GET)
    look = _look(form, head, rights)

    def rows() -> dict[str, Any]:
        if look is None:
            return {"look": None}
        is_first = form.cleaned_data["since"] is None
        return {
            "head": head,
            "look": look,
            "columns": look.columns,
            "asked_subscription": form["sub"].value(),
            "followed_words": followed(
                matched=look.since.matched,
                skipped=look.since.skipped,
                is_filtered=form.asked.filters.is_set,
                is_first=is_first,
            ),
            "newer_query": _query(request.GET, since=str(look.since)),
        }

    source = Source(
        name="tail",
        template="console/parts/messages/tail.html",
        live=() if look is None else tuple(f"topic:{topic_id}" for topic_id in look.topic_ids),
        context=rows,
    )
    context = {
        "head": head,
        "form": form,
        "filters": filter_words(form.cleaned_data) if look is not None else (),
        "search_query": _query(request.GET),
        "most_rows": MOST_FOLLOWED,
        "stop_after_s": STOP_AFTER_S,
        "nav": "topics",
    }
    status = 200 if look is not None else 400
    return answer(request, rights, "console/pages/follow.html", [source], context, status=status)


def _look(form: FollowForm, head: TopicHead, rights: Rights) -> Followed | None:
    asked = asked_by(form, rights)
    if asked is None:
        return None
    try:
        return follow(head, asked, form.cleaned_data["since"])
    except AskedInvalid as error:
        form.add_error(error.field, str(error))
        return None


def _query(query: QueryDict, *, since: str = "") -> str:
    changed = query.copy()
    for name in ("since", "part"):
        changed.pop(name, None)
    if since:
        changed["since"] = since
    return changed.urlencode()
