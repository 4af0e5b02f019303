"""Template filters and tags of the console's pages.

An act is a logged change, such as a cursor reset. A cure is a remedy that a diagnosis suggests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django import template
from django.template.context import Context
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console import addresses, marks
from console.access import Rights
from console.alerts.offers import AlertOffer, alert_offers
from console.blocks import Block
from console.diagnosis.findings import Cure, Severity
from console.diagnosis.words import severity_word, value_text
from console.forms import act_forms
from console.help.library import runbook_page
from console.letters.reasons import Group
from console.queries.clients import ConsumerRow
from console.queries.pipeline import RunRow
from console.queries.subscription import SubscriptionHead
from console.story.words import line_after, line_before
from console.words import acts, nouns, numerals, policies, receipts
from console.words.act_place import place_of
from console.words.clients import Flag, flag_named
from console.words.pipeline import run_tone
from console.words.subscriptions import label_of, state_word, tone_of

__all__ = ["register"]

register = template.Library()

_ICONS: Final = {"good": "●", "warn": "▲", "bad": "✕"}

register.filter("size", numerals.size)
register.filter("rate", numerals.rate)
register.simple_tag(numerals.zone_name, name="zone")
register.filter("short_name", addresses.short_name)
register.filter("marked", marks.marked, is_safe=True)
register.filter("one_line", marks.one_line)
register.filter("coded", marks.coded, is_safe=True)
register.filter("act_title", acts.title)
register.filter("error_text", acts.error_text)
register.filter("value_text", value_text)
register.filter("next_message", receipts.next_message)
register.simple_tag(place_of, name="act_place")
register.simple_tag(addresses.topic_url, name="topic_url")
register.simple_tag(addresses.subscription_url, name="subscription_url")
register.simple_tag(addresses.act_form_url, name="act_form_url")
register.simple_tag(addresses.topic_act_url, name="topic_act_url")
register.simple_tag(addresses.dead_letters_url, name="dead_letters_url")
register.simple_tag(addresses.again_url, name="again_url")
register.simple_tag(addresses.choose_url, name="choose_url")
register.simple_tag(addresses.cursor_act_url, name="cursor_act_url")
register.simple_tag(addresses.compare_url, name="compare_url")
register.simple_tag(addresses.messages_url, name="messages_url")
register.simple_tag(addresses.message_url, name="message_url")
register.simple_tag(addresses.past_url, name="past_url")
register.filter("in_utc", numerals.in_utc)
register.simple_tag(addresses.namespace_url, name="namespace_url")
register.simple_tag(addresses.policies_url, name="policies_url")
register.filter("policy_origin", policies.origin)
register.filter("policy_groups", policies.grouped)
register.filter("spaced", policies.spaced)
register.filter("story_before", line_before)
register.filter("story_after", line_after)


@register.inclusion_tag("console/parts/alerts/offers.html")
def alert_me(topic: str, subscription: str = "") -> dict[str, list[AlertOffer]]:
    """Draw the menu that offers new alert rules for a topic or subscription."""
    return {"offers": alert_offers(topic, subscription)}


@register.filter
def count(number: int | str | None) -> str:
    """Format a number. Return a dash for None and for a string: a failed template lookup gives an empty string."""
    return numerals.UNKNOWN if isinstance(number, str) else numerals.count(number)


@register.filter
def place_of_name(topic: str) -> str:
    """Return the `tenant/namespace/` part of a topic's name."""
    rest = topic.removeprefix("persistent://")
    return rest[: rest.rfind("/", 0, len(rest) - len(addresses.short_name(topic))) + 1]


@register.filter
def may_act_on(rights: Rights, name: str) -> bool:
    """Return whether the user may plan acts that need the operator role."""
    return rights.may_act_on(name)


@register.filter
def seconds(value: float | None) -> str:
    """Format a length of time given in seconds."""
    return numerals.UNKNOWN if value is None else numerals.span(value)


@register.filter
def latency(value: int | None) -> str:
    """Format a latency given in milliseconds."""
    return numerals.latency(value)


@register.filter
def plural(number: int | str | None, word: str) -> str:
    """Format a number with its noun, such as 3 consumers."""
    return nouns.counted(number if isinstance(number, int) else None, word)


@register.filter
def entries(number: int) -> str:
    """Format a number of entries."""
    return nouns.counted(number, "entry")


@register.filter
def batches(number: int) -> str:
    """Format a number of batches."""
    return nouns.counted(number, "batch")


@register.simple_tag(takes_context=True)
def sentence(context: Context, text: str) -> str:
    """Add a capital letter and a full stop to a sentence from the broker."""
    return acts.sentence(text, _names_in(context))


def _names_in(context: Context) -> list[str]:
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
    """Describe what an act requests. Accepts an ActView or a database row."""
    undo_of = act.undo_of_id if hasattr(act, "undo_of_id") else act.undo_of
    return acts.asked(act.kind, act.parameters, undo_of)


@register.simple_tag
def partition_table(
    act: Any, plan: Mapping[str, Any], result: Mapping[str, Any] | None
) -> receipts.PartitionTable:
    """Return the table of an act's partitions."""
    return receipts.partition_table(act.kind, plan, result)


@register.simple_tag
def receipt_rows(act: Any, plan: Mapping[str, Any], result: Mapping[str, Any]) -> list[receipts.ReceiptRow]:
    """Return the counts that an applied act reports."""
    return receipts.receipt_rows(act.kind, plan or {}, result)


@register.simple_tag
def act_state(state: str) -> SafeString:
    """Render the state of an act as a badge."""
    return _badge(*acts.state_word(state), is_fact=True)


@register.simple_tag
def alert_badge(severity: str) -> SafeString:
    """Render the severity of an alert as a badge."""
    tones = {"critical": "bad", "warning": "warn"}
    return _badge(_(severity), tones.get(severity, "calm"), is_fact=True)


@register.filter
def is_ahead(then: datetime | None, now_ms: int) -> bool:
    """Return whether a time is in the future."""
    return then is not None and then.timestamp() * 1000 > now_ms


@register.simple_tag
def badge(word: str, tone: str, *, fact: bool = False) -> SafeString:
    """Translate a word and render it as a badge."""
    return _badge(_(word), tone, is_fact=fact)


@register.simple_tag
def run_state(state: str) -> SafeString:
    """Render the state of a pipeline run as a badge."""
    return _badge(_(state), run_tone(state), is_fact=True)


@register.simple_tag
def subscription_state(state: int | None) -> SafeString:
    """Render the last reported state of a subscription as a badge."""
    return _badge(label_of(state_word(state)), tone_of(state), is_fact=False)


@register.simple_tag
def severity(severity: Severity) -> SafeString:
    """Render the severity of a diagnosed problem as a badge."""
    return _badge(*severity_word(severity), is_fact=True)


def _badge(word: str, tone: str, *, is_fact: bool) -> SafeString:
    """Render a word with an icon, because colour must not be the only sign.

    If `is_fact` is false, the badge says "unknown" while the page gets no news from the broker.
    """
    return format_html(
        '<span class="badge {}"><span class="badge-icon" aria-hidden="true">{}</span><span>{}</span></span>',
        tone if is_fact else f"{tone} judged",
        _ICONS.get(tone, "○"),
        word,
    )


@register.filter
def of_key(found: Mapping[int, Any] | str, key: int) -> Any:
    """Return the value for a key. After a failed template lookup, `found` is an empty text."""
    return None if isinstance(found, str) else found.get(key)


@register.filter
def at(values: Sequence[Any], number: int) -> Any:
    """Return the value at this index."""
    return values[number]


@register.simple_tag
def consumer_act_url(row: ConsumerRow, kind: str) -> str:
    """Return the address of an act's form, filled in with this consumer."""
    form = addresses.act_form_url(row.topic_name, row.subscription_name, kind)
    return f"{form}?{urlencode({'consumer': row.name, 'consumer_key': row.key})}"


@register.simple_tag
def run_again_url(run: RunRow, **changed: str) -> str:
    """Return the address of a form that repeats a pipeline run. `changed` holds new values for options."""
    given = {f"option_{name}": value for name, value in {**run.given, **changed}.items()}
    return f"{reverse('console:job_form', args=[run.job])}?{urlencode({'topic': run.topic_name, **given})}"


@register.filter
def flag(name: str) -> Flag:
    """Return the words of a flag, which names a problem of a client."""
    return flag_named(name)


@register.simple_tag
def cure_url(head: SubscriptionHead, cure: Cure) -> str:
    """Return the address to which a cure leads."""
    if cure.act:
        form = addresses.act_form_url(head.topic_name, head.name, cure.act)
        return f"{form}?{urlencode(cure.parameters)}" if cure.parameters else form
    if cure.letters:
        return addresses.dead_letters_url(cure.letters)
    return addresses.topic_url(cure.topic) if cure.topic else f"#part-{cure.block}"


@register.inclusion_tag("console/parts/cure.html")
def cure_button(head: SubscriptionHead, cure: Cure) -> dict[str, str | bool | SafeString]:
    """Draw a button that plans a cure's act. If values are missing, the button opens the act's form instead."""
    form = act_forms[cure.act]({name: str(value) for name, value in cure.parameters.items()})
    return {"url": cure_url(head, cure), "text": marks.marked(cure.text), "is_ready": form.is_valid()}


@register.simple_tag
def runbook_url(about: str) -> str:
    """Return the address of the runbook page about a diagnosis rule or a problem."""
    return addresses.help_url(runbook_page(about))


@register.simple_tag
def redrive_url(topic: str, subscription: str, group: Group) -> str:
    """Return the address of the form that republishes a group of dead letters, or "" if no filter selects the group."""
    filled = group.redrive_filter
    return f"{addresses.act_form_url(topic, subscription, 'redrive')}?{urlencode(filled)}" if filled else ""


@register.inclusion_tag("console/block.html", takes_context=True)
def part(context: Context, block: Block) -> dict[str, Any]:
    """Render a block, a part of a page that htmx refreshes."""
    since_ms = context["notices"].since_ms
    since = (
        {"since": numerals.in_utc(since_ms), "since_ago": numerals.ago(since_ms, context["now_ms"])}
        if since_ms
        else {}
    )
    return {"block": block, **since}


@register.simple_tag(takes_context=True)
def ago(context: Context, then: int | datetime | None) -> SafeString | str:
    """Return how long ago a time was."""
    then_ms = _milliseconds(then)
    if not then_ms:
        return numerals.UNKNOWN
    now_ms = context["now_ms"]
    if not numerals.is_time(then_ms):
        return numerals.clock(then_ms, now_ms)
    return format_html(
        '<time class="ago" datetime="{}" title="{} {}">{}</time>',
        numerals.in_utc(then_ms),
        numerals.clock(then_ms, now_ms),
        numerals.zone_name(),
        numerals.ago(then_ms, now_ms),
    )


@register.simple_tag(takes_context=True)
def moment(context: Context, then: int | datetime | None) -> SafeString | str:
    """Format a time, and add how long ago it was."""
    then_ms = _milliseconds(then)
    if not then_ms:
        return numerals.UNKNOWN
    now_ms = context["now_ms"]
    if not numerals.is_time(then_ms):
        return numerals.clock(then_ms, now_ms)
    return format_html(
        '<span class="moment"><time datetime="{}">{}</time> <span class="in-brackets">'
        '<time class="ago" datetime="{}">{}</time></span></span>',
        numerals.in_utc(then_ms),
        numerals.clock(then_ms, now_ms),
        numerals.in_utc(then_ms),
        numerals.ago(then_ms, now_ms),
    )


@register.simple_tag(takes_context=True)
def period(context: Context, at_ms: int, until_ms: int) -> SafeString | str:
    """Format the beginning and the end of a period."""
    if until_ms == at_ms:
        return moment(context, at_ms)
    now_ms = context["now_ms"]
    begin, end = (
        format_html('<time datetime="{}">{}</time>', numerals.in_utc(each), numerals.clock(each, now_ms))
        for each in (at_ms, until_ms)
    )
    return format_html(
        '<span class="moment">{}</span>', format_html(_("{begin} to {end}"), begin=begin, end=end)
    )


@register.simple_tag(takes_context=True)
def now_iso(context: Context) -> str:
    """Return the time at which the page's numbers were read."""
    return numerals.in_utc(context["now_ms"])


def _milliseconds(then: int | datetime | None) -> int | None:
    return int(then.timestamp() * 1000) if isinstance(then, datetime) else then
