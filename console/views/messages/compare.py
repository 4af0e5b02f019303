"""The page that compares two messages of a topic side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.addresses import compare_url
from console.blocks import page
from console.messages.asked import read_spot
from console.messages.comparison import compare_bodies
from console.messages.message import FoundMessage, MessageMissing, body_of, find_message, partition_of
from console.messages.peek import preview_of
from console.queries.topics.topic import TopicHead
from console.views.messages.asked import head_of

__all__ = ["compare_messages"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    head: TopicHead
    found: FoundMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fact:
    """A fact about two messages. A missing value is None or 0."""

    name: str
    left: int | str | None
    right: int | str | None
    kind: Literal["time", "size", "text", "property"]

    @property
    def differs(self) -> bool:
        return self.left != self.right


@require_safe
@viewer
def compare_messages(request: HttpRequest, rights: Rights, topic: str) -> HttpResponse:
    """Compare the two messages that the query string names."""
    head = head_of(topic)
    given = {name: request.GET.get(name, "").strip() for name in ("a", "b")}
    picked = request.GET.getlist("pick")
    if len(picked) == 2:
        given = dict(zip(("a", "b"), sorted(picked, key=_order), strict=True))
        return redirect(f"{compare_url(head.name)}?{urlencode(given)}")
    errors: dict[str, str] = {}
    if picked:
        given["a"] = picked[0]
        errors["pick"] = _("Choose two messages to compare.")
    sides = [_side(head, name, text, errors) for name, text in given.items()]
    shows_all = request.GET.get("all") == "1"
    context: dict[str, Any] = {
        "head": head,
        "nav": "topics",
        "given": given,
        "errors": errors,
        "shows_all": shows_all,
    }
    left, right = sides
    if left is not None and right is not None:
        context |= {"left": left, "right": right, **_compared(left, right, rights, shows_all=shows_all)}
    status = 400 if errors and not picked else 200
    return page(request, rights, "console/pages/compare.html", context, status=status)


def _order(text: str) -> tuple[int, ...]:
    try:
        return tuple(read_spot(text))
    except ValueError:
        return ()


def _side(head: TopicHead, name: str, text: str, errors: dict[str, str]) -> _Side | None:
    if not text:
        return None
    try:
        spot = read_spot(text)
        if head.partitions:
            head = head_of(partition_of(head, spot))
        return _Side(head=head, found=find_message(head, spot))
    except (ValueError, MessageMissing) as error:
        errors[name] = str(error)
        return None


def _compared(left: _Side, right: _Side, rights: Rights, *, shows_all: bool) -> dict[str, Any]:
    facts = list(_metadata(left.found, right.found))
    if not rights.may_see_payloads:
        return {"facts": facts}
    bodies = [body_of(side.found, side.head, shows_all=shows_all) for side in (left, right)]
    return {
        "facts": [*facts, *_contents(left.found, right.found)],
        "bodies": bodies,
        "comparison": compare_bodies(bodies[0].decoded, bodies[1].decoded),
        "are_cut": any(body.shown_bytes < body.size_bytes for body in bodies),
        "can_show_all": any(body.can_show_all for body in bodies),
    }


def _metadata(left: FoundMessage, right: FoundMessage) -> Iterator[_Fact]:
    stored = left.opened.stored, right.opened.stored
    headers = left.opened.header, right.opened.header
    published = [None if header is None else header.publish_time_ms for header in headers]
    producers = [None if header is None else header.producer_name for header in headers]
    yield _Fact(name=_("Stored"), left=stored[0].append_ms, right=stored[1].append_ms, kind="time")
    yield _Fact(name=_("Published"), left=published[0], right=published[1], kind="time")
    if stored[0].deliver_at_ms or stored[1].deliver_at_ms:
        yield _Fact(
            name=_("Not delivered before"),
            left=stored[0].deliver_at_ms,
            right=stored[1].deliver_at_ms,
            kind="time",
        )
    yield _Fact(name=_("Producer"), left=producers[0], right=producers[1], kind="text")
    yield _Fact(name=_("Entry"), left=stored[0].size_bytes, right=stored[1].size_bytes, kind="size")


def _contents(left: FoundMessage, right: FoundMessage) -> Iterator[_Fact]:
    """Yield the facts for users who may see payloads."""
    one, other = left.metadata, right.metadata
    yield _Fact(
        name=_("Key"),
        left=None if one is None else one.key,
        right=None if other is None else other.key,
        kind="text",
    )
    ordering = [None if each is None else each.ordering_key for each in (one, other)]
    if ordering[0] is not None or ordering[1] is not None:
        left_key, right_key = (None if key is None else preview_of(key)[0] for key in ordering)
        yield _Fact(name=_("Ordering key"), left=left_key, right=right_key, kind="text")
    without = [each is not None and each.null_value for each in (one, other)]
    if any(without):
        left_is, right_is = (_("yes") if each else _("no") for each in without)
        yield _Fact(name=_("Sent without a value"), left=left_is, right=right_is, kind="text")
    events = (0 if each is None else each.event_time_ms for each in (one, other))
    event_left, event_right = events
    if event_left or event_right:
        yield _Fact(name=_("Event time"), left=event_left, right=event_right, kind="time")
    properties = [{} if each is None else each.properties for each in (one, other)]
    for name in sorted({*properties[0], *properties[1]}):
        yield _Fact(name=name, left=properties[0].get(name), right=properties[1].get(name), kind="property")
