"""The pages of a topic and of a subscription at an earlier moment."""

from __future__ import annotations

import time
from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from broker.conf import broker_settings
from console.access import Rights, viewer
from console.addresses import past_url, subscription_url, topic_url
from console.blocks import page
from console.history.bars import BARS_HEIGHT, BARS_WIDTH, bars
from console.queries.past import Past, past_of
from console.queries.subscription import subscription_head
from console.queries.topics.topic import topic_head
from console.words.numerals import in_utc, read_time_ms, time_text
from console.words.subscriptions import label_of, state_word

__all__ = ["subscription_past", "topic_past"]

_HOUR_MS: Final = 3_600_000
_STEP_DIGITS: Final = 5  # Charts and their tables have steps of up to 43,200 s


@require_safe
@viewer
def topic_past(request: HttpRequest, rights: Rights, topic: str) -> HttpResponse:
    """Show a topic at the moment that the query string gives."""
    head = topic_head(topic)
    if head is None:
        raise Http404(_("There is no topic {name}.").format(name=topic))
    at_ms, trouble = _moment(request)
    found = past_of(
        at_ms,
        head.id,
        step_s=_step_s(request),
        created_at=head.created_at,
        is_sum=bool(head.partitions),
    )
    about = {
        "topic": head.name,
        "subscription": "",
        "present": topic_url(head.name),
        "created": head.created_at,
    }
    return _answer(request, rights, at_ms, trouble, found, {**about, "state": _state(head, at_ms)})


@require_safe
@viewer
def subscription_past(request: HttpRequest, rights: Rights, topic: str, name: str) -> HttpResponse:
    """Show a subscription at the moment that the query string gives."""
    head = subscription_head(topic, name)
    if head is None:
        raise Http404(
            _("{topic} has no subscription {name} with its own history.").format(topic=topic, name=name)
        )
    at_ms, trouble = _moment(request)
    found = past_of(at_ms, head.topic_id, head.id, step_s=_step_s(request), created_at=head.created_at)
    about = {
        "topic": head.topic_name,
        "subscription": head.name,
        "present": subscription_url(head.topic_name, head.name),
        "created": head.created_at,
    }
    return _answer(request, rights, at_ms, trouble, found, {**about, "state": _state(head, at_ms)})


def _moment(request: HttpRequest) -> tuple[int, str]:
    now_ms = time.time_ns() // 1_000_000
    text = request.GET.get("at", "")
    if not text:
        return now_ms - _HOUR_MS, ""
    try:
        return read_time_ms(text), ""
    except ValueError as error:
        return now_ms - _HOUR_MS, str(error)


def _step_s(request: HttpRequest) -> int:
    text = request.GET.get("step", "")
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= _STEP_DIGITS else 0


def _state(head: Any, at_ms: int) -> dict[str, Any]:
    # Only the current state is stored.
    is_known = head.state is not None and 0 < (head.state_since_ms or 0) <= at_ms
    word = state_word(head.state)
    return {"word": label_of(word), "number": head.state, "since_ms": head.state_since_ms} if is_known else {}


def _answer(
    request: HttpRequest, rights: Rights, at_ms: int, trouble: str, found: Past | None, about: dict[str, Any]
) -> HttpResponse:
    address = past_url(about["topic"], about["subscription"])
    kept_ms = max(broker_settings().history_kept_ms.values())
    context: dict[str, Any] = {
        **about,
        "at_ms": at_ms,
        "at_text": time_text(at_ms) if not trouble else request.GET.get("at", "")[:100],
        "trouble": trouble,
        "past": found if not trouble else None,
        "kept_s": kept_ms // 1000,
        "is_too_old": at_ms <= time.time_ns() // 1_000_000 - kept_ms,
        "address": address,
        "nav": "topics",
    }
    if found is not None and not trouble:
        frame, step = found.frame, found.step
        step_s = frame.window.step_s
        number = found.steps.index(step)
        until_ms = step.at_ms + round((step.seconds or step_s) * 1000)
        context |= {
            "rows": found.steps,
            "until_ms": until_ms,
            "earlier": _query(at_ms - frame.step_ms, step_s),
            "later": _query(at_ms + frame.step_ms, step_s) if at_ms + frame.step_ms < frame.to_ms else "",
            "shorter": _in_shorter_steps(found, (step.at_ms + until_ms) // 2),
            "bars": bars(
                {
                    each.at_ms: each.backlog_most_messages
                    for each in found.steps
                    if each.backlog_most_messages is not None
                },
                first=frame.from_ms,
                places=frame.window.steps,
                step=frame.step_ms,
            ),
            "mark": [round(place / frame.window.steps * BARS_WIDTH, 1) for place in (number, number + 1)],
            "width": BARS_WIDTH,
            "height": BARS_HEIGHT,
        }
    return page(request, rights, "console/pages/past.html", context, status=422 if trouble else 200)


def _in_shorter_steps(found: Past, middle_ms: int) -> str:
    if found.shorter_step_s is None:
        return ""
    at_ms = min(middle_ms, found.frame.to_ms)
    return _query(at_ms - at_ms % (found.shorter_step_s * 1000), found.shorter_step_s)


def _query(at_ms: int, step_s: int) -> str:
    return f"at={in_utc(at_ms)}&step={step_s}"
