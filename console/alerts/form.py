"""The form for an alert rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop

from broker.models import AlertRule, Measure, Severity
from vela.wire.quantities import read_length_ms, read_size_bytes, write_length, write_size

__all__ = ["MEASURES", "RuleForm", "initial_of"]

MEASURES: Final = {
    Measure.BACKLOG: gettext_noop("the backlog is above a number of messages"),
    Measure.AGE: gettext_noop("the oldest unacked message is older than a time"),
    Measure.STUCK: gettext_noop("a subscription is stuck"),
    Measure.BEHIND: gettext_noop("a subscription is stuck or falling behind"),
    Measure.NO_CONSUMER: gettext_noop("a subscription has no consumer"),
    Measure.DEAD_LETTERS: gettext_noop("a dead-letter topic grew by more than a number of messages"),
    Measure.REDELIVERIES: gettext_noop("a subscription has more redeliveries per second than a number"),
    Measure.STORED: gettext_noop("a topic stores more than a size"),
    Measure.BROKER: gettext_noop("the broker is silent"),
}
_SEVERITIES: Final = {
    Severity.CRITICAL: gettext_noop("critical"),
    Severity.WARNING: gettext_noop("warning"),
    Severity.NOTICE: gettext_noop("notice"),
}
_LIMIT_EXAMPLES: Final = {"messages": "10000", "per second": "10", "ms": "15m", "bytes": "10GB"}
_NAME: Final = r"(?!\.+/?\Z)[-=:.\w]{1,255}"
_PLACE: Final = re.compile(rf"\*|{_NAME}/(?:\*|{_NAME})", re.ASCII)
_LONGEST_MS: Final = 30 * 24 * 3600 * 1000
_LONGEST_WITHIN_MS: Final = 6 * 3600 * 1000  # Older dead-letter counts may be deleted
_LARGEST: Final = 2**62
_MOST_STARS: Final = 4


class RuleForm(forms.Form):
    """A form for a rule's condition, the topics and subscriptions to watch, and the addresses to notify."""

    name = forms.CharField(max_length=100, error_messages={"required": gettext_lazy("Give the rule a name.")})
    measure = forms.ChoiceField(
        choices=[(each.value, gettext_lazy(words)) for each, words in MEASURES.items()]
    )
    limit = forms.CharField(max_length=40, required=False)
    within = forms.CharField(max_length=40, required=False)
    lasts = forms.CharField(max_length=40, required=False)
    namespaces = forms.CharField(
        max_length=600, error_messages={"required": gettext_lazy("Write *, tenant/* or tenant/namespace.")}
    )
    topics = forms.CharField(max_length=300, required=False)
    subscriptions = forms.CharField(max_length=300, required=False)
    severity = forms.ChoiceField(choices=[(each.value, gettext_lazy(_SEVERITIES[each])) for each in Severity])
    webhook_url = forms.CharField(max_length=2000, required=False)
    drop_webhook = forms.BooleanField(required=False)
    email = forms.EmailField(max_length=320, required=False)

    def __init__(self, data: Mapping[str, Any] | None, *, kept_url: str = "", **others: Any) -> None:
        self._kept_url = kept_url
        super().__init__(data, **others)

    def clean_namespaces(self) -> str:
        pattern = str(self.cleaned_data["namespaces"])
        if not _PLACE.fullmatch(pattern):
            raise ValidationError(_("Write *, tenant/* or tenant/namespace."))
        return pattern

    def clean_topics(self) -> str:
        return _pattern(self.cleaned_data["topics"])

    def clean_subscriptions(self) -> str:
        return _pattern(self.cleaned_data["subscriptions"])

    def clean_webhook_url(self) -> str:
        url = str(self.cleaned_data["webhook_url"])
        try:
            parts = urlsplit(url)
            is_bad = bool(url) and (
                parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
            )
        except ValueError:
            is_bad = True
        if is_bad or re.search(r"[\x00-\x20\x7f-\U0010ffff]", url):
            raise ValidationError(_("Write a URL that begins with http:// or https://, without spaces."))
        if "@" in (parts.netloc if url else ""):
            raise ValidationError(_("Write the URL without a user name or password."))
        return url

    def clean(self) -> dict[str, Any]:
        cleaned = self.cleaned_data
        measure = Measure(cleaned["measure"]) if cleaned.get("measure") else None
        cleaned["for_ms"] = self._length("lasts", most_ms=_LONGEST_MS) or 0
        cleaned["threshold"] = cleaned["within_ms"] = None
        if measure is not None and measure.unit:
            cleaned["threshold"] = self._limit(measure.unit)
        if measure is Measure.DEAD_LETTERS:
            cleaned["within_ms"] = self._length("within", most_ms=_LONGEST_WITHIN_MS)
            if not cleaned["within_ms"] and "within" not in self.errors:
                self.add_error("within", _("Write the period in which new letters are counted, such as 10m."))
        if measure is not None and not measure.unit and not cleaned["for_ms"] and "lasts" not in self.errors:
            self.add_error("lasts", _("Write how long this must last, such as 5m."))
        if measure is Measure.BROKER and cleaned.get("namespaces", "*") != "*":
            self.add_error("namespaces", _("The broker serves every namespace: write *."))
        return cleaned

    @property
    def values(self) -> dict[str, Any]:
        """The values of the rule's columns. Call `is_valid` first."""
        cleaned = self.cleaned_data
        url = cleaned["webhook_url"] or ("" if cleaned["drop_webhook"] else self._kept_url)
        names = (
            "name",
            "measure",
            "threshold",
            "within_ms",
            "for_ms",
            "namespaces",
            "topics",
            "subscriptions",
            "severity",
            "email",
        )
        return {name: cleaned[name] for name in names} | {"webhook_url": url}

    def _limit(self, unit: str) -> int | None:
        text = str(self.cleaned_data.get("limit", "")).strip()
        example = _LIMIT_EXAMPLES[unit]
        if unit == "ms":
            return self._read("limit", text, read_length_ms, example, most=_LARGEST)
        if unit == "bytes":
            return self._read("limit", text, read_size_bytes, example, most=_LARGEST)
        return self._read("limit", text, _number, example, most=_LARGEST)

    def _length(self, field: str, *, most_ms: int) -> int | None:
        text = str(self.cleaned_data.get(field, "")).strip()
        return self._read(field, text, read_length_ms, "5m", most=most_ms) if text and text != "0" else None

    def _read(
        self, field: str, text: str, read: Callable[[str], int], example: str, *, most: int
    ) -> int | None:
        if not text:
            self.add_error(field, _("Write a limit, such as {example}.").format(example=example))
            return None
        try:
            value = read(text)
        except ValueError as error:
            self.add_error(field, f"{str(error)[:1].upper()}{str(error)[1:]}.")
            return None
        if value > most:
            too_much = _("This is too much.") if most == _LARGEST else _("This is too much: at most {most}.")
            self.add_error(field, too_much.format(most=write_length(most)))
            return None
        return value


def initial_of(rule: AlertRule) -> dict[str, Any]:
    """Return a rule's values for the form. Leave out the webhook's URL, which may contain a secret."""
    threshold = rule.threshold
    limit = "" if threshold is None else str(threshold)
    if threshold is not None and Measure(rule.measure).unit == "ms":
        limit = write_length(threshold)
    elif threshold is not None and Measure(rule.measure).unit == "bytes":
        limit = write_size(threshold)
    names = ("name", "measure", "namespaces", "topics", "subscriptions", "severity", "email")
    return {name: getattr(rule, name) for name in names} | {
        "limit": limit,
        "within": "" if rule.within_ms is None else write_length(rule.within_ms),
        "lasts": write_length(rule.for_ms) if rule.for_ms else "",
    }


def _number(text: str) -> int:
    digits = re.sub(r"(?<=[0-9])[ ,\u202f](?=[0-9]{3})", "", text)
    if not re.fullmatch(r"[0-9]{1,18}", digits):
        raise ValueError(
            _("{text!r} is not a whole number of at least 0: write it like 10000").format(text=text)
        )
    return int(digits)


def _pattern(text: str) -> str:
    pattern = text.strip() or "*"
    if pattern.count("*") > _MOST_STARS:
        raise ValidationError(_("At most {most} asterisks.").format(most=_MOST_STARS))
    return pattern
