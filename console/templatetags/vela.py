"""Template filters and tags of the console's pages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django import template
from django.template.context import Context
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console import addresses, marks
from console.blocks import Block
from console.diagnosis.findings import Cure, Severity
from console.diagnosis.words import severity_word, value_text
from console.queries.subscription import SubscriptionHead
from console.words import acts, numerals
from console.words.subscriptions import state_word, tone_of

__all__ = ["register"]

register = template.Library()

register.filter("size", numerals.size)
register.filter("rate", numerals.rate)
register.filter("short_name", addresses.short_name)
register.filter("marked", marks.marked, is_safe=True)
register.filter("act_title", acts.title)
register.filter("value_text", value_text)
register.simple_tag(acts.acked_meanwhile, name="acked_meanwhile")
register.simple_tag(addresses.topic_url, name="topic_url")
register.simple_tag(addresses.subscription_url, name="subscription_url")
register.simple_tag(addresses.act_form_url, name="act_form_url")
register.simple_tag(addresses.messages_url, name="messages_url")
register.simple_tag(addresses.message_url, name="message_url")


@register.filter
def count(number: int | str | None) -> str:
    """Write a number. A template lookup that finds nothing gives "", which is unknown too."""
    return numerals.UNKNOWN if isinstance(number, str) else numerals.count(number)


@register.filter
def place_of_name(topic: str) -> str:
    """Return what comes before the local name: the domain unless it is persistent, the tenant and the namespace."""
    rest = topic.removeprefix("persistent://")
    return rest[: rest.rfind("/", 0, len(rest) - len(addresses.short_name(topic))) + 1]


@register.filter
def seconds(value: float | None) -> str:
    """Write a length of time in seconds."""
    return numerals.UNKNOWN if value is None else numerals.span(value)


@register.filter
def plural(number: int | str | None, word: str) -> str:
    """Write 3 consumers, 1 consumer, – consumers."""
    return f"{count(number)} {word}" + ("" if number == 1 else "s")


@register.filter
def entries(number: int) -> str:
    """Write 1 entry, 12 408 entries."""
    return f"{numerals.count(number)} " + ("entry" if number == 1 else "entries")


@register.filter
def batches(number: int) -> str:
    """Write 1 batch, 3 batches."""
    return f"{numerals.count(number)} " + ("batch" if number == 1 else "batches")


@register.simple_tag(takes_context=True)
def sentence(context: Context, text: str) -> str:
    """Give the broker's words a capital letter and a full stop. A name keeps its case."""
    return acts.sentence(text, _names_in(context))


def _names_in(context: Context) -> list[str]:
    """Return the names that words of the broker may begin with: those of the page's act or subscription."""
    subjects = [context.get(name) for name in ("act", "to_apply", "row", "head")]
    parameters = [getattr(subject, "parameters", None) or {} for subject in subjects]
    return [
        *(
            str(getattr(subject, name, ""))
            for subject in subjects
            for name in ("topic", "topic_name", "subscription", "subscription_name", "name")
        ),
        *(value for each in parameters for value in each.values() if isinstance(value, str)),
    ]


@register.simple_tag
def asked(act: Any) -> str:
    """Return an act's request in words. Takes an ActRow or an ActView."""
    undo_of = act.undo_of_id if hasattr(act, "undo_of_id") else act.undo_of
    return acts.asked(act.kind, act.parameters, undo_of)


@register.inclusion_tag("console/badge.html")
def act_state(state: str) -> dict[str, str | bool]:
    """Render the state of an act as a badge with icon and word, so that colour is never the only sign."""
    word, tone = acts.state_word(state)
    return {"word": word, "tone": tone, "is_fact": True}


@register.inclusion_tag("console/badge.html")
def badge(word: str, tone: str, *, fact: bool = False) -> dict[str, str | bool]:
    """Render a word with an icon. Without a broker the page shows “unknown” instead, unless it is a stored fact."""
    return {"word": word, "tone": tone, "is_fact": fact}


@register.inclusion_tag("console/badge.html")
def subscription_state(state: int | None) -> dict[str, str]:
    """Render a stored state of subscriptions as a badge."""
    return {"word": state_word(state), "tone": tone_of(state)}


@register.inclusion_tag("console/badge.html")
def severity(severity: Severity) -> dict[str, str | bool]:
    """Render how grave a finding is as a badge. A finding knows whether a broker runs."""
    word, tone = severity_word(severity)
    return {"word": word, "tone": tone, "is_fact": True}


@register.simple_tag
def cure_url(head: SubscriptionHead, cure: Cure) -> str:
    """Return the address of a cure: the form of its act, filled in, or the block or topic to look at."""
    if cure.act:
        form = addresses.act_form_url(head.topic_name, head.name, cure.act)
        return f"{form}?{urlencode(cure.parameters)}" if cure.parameters else form
    return addresses.topic_url(cure.topic) if cure.topic else f"#part-{cure.block}"


@register.inclusion_tag("console/block.html", takes_context=True)
def part(context: Context, block: Block) -> dict[str, Any]:
    """Render a block inside the element that htmx refreshes, and the age of its numbers while they are old."""
    since_ms = context["notices"].since_ms
    since = (
        {"since": _iso(since_ms), "since_ago": numerals.ago(since_ms, context["now_ms"])} if since_ms else {}
    )
    return {"block": block, **since}


@register.simple_tag(takes_context=True)
def ago(context: Context, then: int | datetime | None) -> SafeString | str:
    """Write how long ago a time was, with the exact time as its title. 0 and None are unknown.

    A number that no clock shows is written as it is.
    """
    then_ms = _milliseconds(then)
    if not then_ms:
        return numerals.UNKNOWN
    now_ms = context["now_ms"]
    if not numerals.is_time(then_ms):
        return numerals.clock(then_ms, now_ms)
    return format_html(
        '<time class="ago" datetime="{}" title="{} UTC">{}</time>',
        _iso(then_ms),
        numerals.clock(then_ms, now_ms),
        numerals.ago(then_ms, now_ms),
    )


@register.simple_tag(takes_context=True)
def moment(context: Context, then: int | datetime | None) -> SafeString | str:
    """Write a time, and how long ago it was in brackets. 0 and None are unknown.

    A number that no clock shows is written as it is.
    """
    then_ms = _milliseconds(then)
    if not then_ms:
        return numerals.UNKNOWN
    now_ms = context["now_ms"]
    if not numerals.is_time(then_ms):
        return numerals.clock(then_ms, now_ms)
    return format_html(
        '<span class="moment"><time datetime="{}">{}</time> <span class="in-brackets">'
        '<time class="ago" datetime="{}">{}</time></span></span>',
        _iso(then_ms),
        numerals.clock(then_ms, now_ms),
        _iso(then_ms),
        numerals.ago(then_ms, now_ms),
    )


@register.simple_tag(takes_context=True)
def now_iso(context: Context) -> str:
    """Return when the numbers on the page were read."""
    return _iso(context["now_ms"])


def _milliseconds(then: int | datetime | None) -> int | None:
    return int(then.timestamp() * 1000) if isinstance(then, datetime) else then


def _iso(then_ms: int) -> str:
    moment_utc = datetime.fromtimestamp(then_ms / 1000, UTC)
    return moment_utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")
