"""Words for acts. An act is a logged change, such as a cursor reset."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from broker.acts.requests import TYPED_ABOVE_MESSAGES
from console.words.numerals import UNKNOWN, count, is_time, time_text, zone_name
from vela.wire.errors import InvalidMessageId
from vela.wire.message_id import MessageId

__all__ = [
    "ENDINGS",
    "KINDS",
    "OF_USERS",
    "STATES",
    "acked_meanwhile",
    "asked",
    "error_text",
    "loses_messages",
    "must_type_name",
    "sentence",
    "state_word",
    "title",
]

KINDS = {
    "reset": gettext_noop("Reset"),
    "skip": gettext_noop("Skip"),
    "skip_one": gettext_noop("Skip one message"),
    "clear": gettext_noop("Clear backlog"),
    "expire": gettext_noop("Expire"),
    "undo": gettext_noop("Undo"),
    "pause": gettext_noop("Pause"),
    "resume": gettext_noop("Resume"),
    "disconnect": gettext_noop("Disconnect"),
    "redeliver": gettext_noop("Redeliver"),
    "create_subscription": gettext_noop("Create subscription"),
    "delete_subscription": gettext_noop("Delete subscription"),
    "create_bookmark": gettext_noop("Create bookmark"),
    "delete_bookmark": gettext_noop("Delete bookmark"),
    "send_to_dead_letters": gettext_noop("Send to dead letters"),
    "redrive": gettext_noop("Redrive"),
    "publish": gettext_noop("Publish a message"),
    "set_namespace_policies": gettext_noop("Set policies of a namespace"),
    "set_topic_policies": gettext_noop("Set policies of a topic"),
    "create_namespace": gettext_noop("Create namespace"),
    "delete_namespace": gettext_noop("Delete namespace"),
    "skip_entries": gettext_noop("Skip entries"),
    "set_subscription_properties": gettext_noop("Set subscription properties"),
    "delete_schema": gettext_noop("Delete schema"),
    "trim": gettext_noop("Trim topic"),
    "set_tenant": gettext_noop("Set tenant"),
    "delete_tenant": gettext_noop("Delete tenant"),
    "create_topic": gettext_noop("Create topic"),
    "update_partitions": gettext_noop("Add partitions"),
    "compact": gettext_noop("Compact topic"),
    "delete_compaction": gettext_noop("Delete compaction"),
    "terminate": gettext_noop("Terminate topic"),
    "truncate": gettext_noop("Truncate topic"),
    "unload": gettext_noop("Unload topic"),
    "delete_topic": gettext_noop("Delete topic"),
    "run_job": gettext_noop("Run job"),
    "continue_job": gettext_noop("Continue job"),
    "cancel_job": gettext_noop("Cancel job"),
    "schedule_job": gettext_noop("Schedule job"),
    "unschedule_job": gettext_noop("Delete schedule"),
    "seek": gettext_noop("Client seek"),
    "unsubscribe": gettext_noop("Unsubscribe"),
    "commit": gettext_noop("Commit by a pull consumer"),
    "evict": gettext_noop("Skip messages over the backlog quota"),
    "expire_subscription": gettext_noop("Delete unused subscription"),
    "set_role": gettext_noop("Set role"),
    "create_user": gettext_noop("Create user"),
    "set_password": gettext_noop("Set password"),
    "activate_user": gettext_noop("Activate user"),
    "deactivate_user": gettext_noop("Deactivate user"),
    "add_second_factor": gettext_noop("Add second factor"),
    "remove_second_factor": gettext_noop("Remove second factor"),
    "renew_recovery_codes": gettext_noop("Renew recovery codes"),
    "create_token": gettext_noop("Create token"),
    "revoke_token": gettext_noop("Revoke token"),
    "set_permissions": gettext_noop("Set permissions"),
    "set_alert_rule": gettext_noop("Set alert rule"),
    "delete_alert_rule": gettext_noop("Delete alert rule"),
    "silence_alert_rule": gettext_noop("Silence alert rule"),
    "test_alert_rule": gettext_noop("Test alert rule"),
}
ENDINGS: Final = frozenset(("delete_subscription", "delete_topic", "terminate", "truncate"))
"""Kinds of acts for which the operator must always type a name."""
OF_USERS: Final = frozenset(
    (
        "set_role",
        "create_user",
        "set_password",
        "activate_user",
        "deactivate_user",
        "add_second_factor",
        "remove_second_factor",
        "renew_recovery_codes",
    )
)
"""Kinds of acts that change a user."""
STATES = {
    "plan_requested": (gettext_noop("waiting for a plan"), "warn"),
    "planned": (gettext_noop("planned"), "calm"),
    "apply_requested": (gettext_noop("waiting to be applied"), "warn"),
    "applying": (gettext_noop("being applied"), "warn"),
    "applied": (gettext_noop("applied"), "good"),
    "refused": (gettext_noop("refused"), "bad"),
    "failed": (gettext_noop("failed"), "bad"),
    "expired": (gettext_noop("expired"), "calm"),
    "client": (gettext_noop("in progress"), "warn"),
}


_LAST_LATIN: Final = "\u2e7f"  # Characters above this one count as Chinese
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"|“[^”]*”")
# A count in the broker's text, such as 12408 in "12408 messages".
_COUNTED: Final = re.compile(
    r"(?<![^\s(])[0-9]{4,15}(?= (?:more|messages?|entries|entry|consumers?|partitions?|in all)\b)"
)

# A name such as shop/eu, orders-billing-DLQ or retention_ms, at the beginning of a text.
_NAME: Final = re.compile(r"[a-z]+(?:-[a-z]+)*(?:[^\s\-a-z,.;:!?)\"'’]|:\S|-[^\sa-z])")


def title(kind: str) -> str:
    """Return the heading for a kind of act, in the reader's language."""
    return _(KINDS.get(kind, kind.capitalize()))


def state_word(state: str) -> tuple[str, str]:
    """Return the word and the tone (colour and icon) for a state."""
    word, tone = STATES.get(state, (state, "calm"))
    return _(word), tone


def asked(kind: str, parameters: Mapping[str, Any], undo_of: int | None) -> str:
    """Return the requested change as a phrase, such as "rewind by 15 min"."""
    phrase = _asked(kind, parameters, undo_of)
    chosen = parameters.get("partitions")
    if not isinstance(chosen, str):
        return phrase
    words = (
        _("{phrase} on partition {partitions}")
        if chosen.isdigit()
        else _("{phrase} on partitions {partitions}")
    )
    return words.format(phrase=phrase, partitions=chosen)


def _asked(kind: str, parameters: Mapping[str, Any], undo_of: int | None) -> str:
    def given(name: str) -> Any:
        return parameters.get(name, UNKNOWN)

    if kind == "undo":
        return _("undo act {number}").format(number=undo_of) if undo_of is not None else _("undo")
    if kind == "skip":
        return _("skip {messages}").format(messages=_messages(parameters.get("messages")))
    if kind == "skip_entries":
        entries = parameters.get("entries") or 0
        return ngettext("skip {number} entry", "skip {number} entries", entries).format(number=count(entries))
    if kind == "clear":
        return _("clear the backlog")
    if kind == "skip_one":
        return _("skip message {id}").format(id=_page_id(given("id")))
    if kind == "send_to_dead_letters":
        return _("send message {id} to the dead letters").format(id=_page_id(given("id")))
    if kind == "expire":
        return _expire(parameters)
    if kind in ("disconnect", "redeliver"):
        who = parameters.get("consumer") or _("consumer {key}").format(key=given("consumer_key"))
        if kind == "disconnect":
            return _("disconnect {who}").format(who=who)
        return _("redeliver the unacked messages of {who}").format(who=who)
    if kind in ("create_topic", "create_subscription", "create_bookmark", "delete_bookmark"):
        return _named(kind, given("name"))
    if kind == "reset":
        return _reset(parameters)
    if kind in ("set_namespace_policies", "set_topic_policies"):
        return _set_policies(parameters)
    if kind == "commit":
        return _("commit offset {offset}").format(offset=given("offset"))
    if kind == "run_job":
        return _("run {job}").format(job=given("job"))
    if kind == "schedule_job":
        every = given("every_minutes")
        words = ngettext(
            "run {job} every minute", "run {job} every {minutes} minutes", 1 if every == 1 else 2
        )
        return words.format(job=given("job"), minutes=every)
    if kind == "continue_job":
        return _("continue run {run}").format(run=given("run"))
    if kind == "cancel_job":
        return _("cancel run {run}").format(run=given("run"))
    if kind == "unschedule_job":
        return _("delete schedule {schedule}").format(schedule=given("schedule"))
    if kind == "publish":
        if parameters.get("copy_of"):
            return _("publish {id} again").format(id=parameters["copy_of"])
        return _("publish a message")
    if kind.endswith("_alert_rule"):
        return _named(kind, given("name"))
    if kind == "set_role":
        user, role = given("user"), parameters.get("role")
        if role:
            return _("make {user} {role}").format(user=user, role=_(str(role)))
        return _("take a role from {user}").format(user=user)
    if kind in ("create_token", "revoke_token"):
        role = parameters.get("role") or _("an unknown role")
        return _("{act} {token} of {role}").format(act=title(kind).lower(), token=given("token"), role=role)
    if kind == "set_permissions":
        allowed = ", ".join(parameters.get("permissions") or ()) or _("nothing")
        return _("allow {role}: {permissions}").format(role=given("role"), permissions=allowed)
    if kind == "set_password":
        return _("set the password of {user}").format(user=given("user"))
    if kind in ("create_user", "activate_user", "deactivate_user"):
        return _named(kind, given("user"))
    if kind in ("add_second_factor", "remove_second_factor", "renew_recovery_codes"):
        return _("{act} of {user}").format(act=title(kind).lower(), user=given("user"))
    if kind == "update_partitions":
        return _("grow to {partitions} partitions").format(partitions=given("partitions"))
    return _(KINDS.get(kind, kind)).lower()


def _named(kind: str, name: Any) -> str:
    return f"{title(kind).lower()} {name}"


def _reset(parameters: Mapping[str, Any]) -> str:
    to = parameters.get("to")
    if to == "back_time":
        return _("rewind by {length}").format(length=_length(parameters.get("back_ms", 0)))
    if to == "shift":
        messages = int(parameters.get("messages") or 0)
        words = _("rewind by {length}") if messages < 0 else _("advance by {length}")
        return words.format(length=_messages(abs(messages)))
    if to == "time":
        return _("reset to {place}").format(place=_moment(parameters.get("time_ms", 0)))
    if to == "id":
        words = _("reset to {place}") if parameters.get("inclusive", True) else _("reset to after {place}")
        return words.format(place=_page_id(parameters.get("id", UNKNOWN)))
    if to == "like":
        return _("reset to where {subscription} is").format(subscription=parameters.get("like", UNKNOWN))
    if to == "bookmark":
        return _("reset to bookmark {name}").format(name=parameters.get("bookmark", UNKNOWN))
    return _("reset to the beginning") if to == "earliest" else _("reset to the end")


def _set_policies(parameters: Mapping[str, Any]) -> str:
    changes = [f"{name} = {value}" for name, value in (parameters.get("set") or {}).items()]
    if parameters.get("unset"):
        changes.append(_("unset {policies}").format(policies=parameters["unset"]))
    return _("set policies: {changes}").format(changes=", ".join(changes))


def _expire(parameters: Mapping[str, Any]) -> str:
    to = parameters.get("to")
    if to == "time":
        return _("expire messages stored before {time}").format(time=_moment(parameters.get("time_ms", 0)))
    if to == "older":
        return _("expire messages older than {length}").format(length=_length(parameters.get("older_ms", 0)))
    return _("expire up to {id}").format(id=_page_id(parameters.get("id", UNKNOWN)))


def _page_id(text: object) -> str:
    try:
        found = MessageId.parse(str(text))
    except InvalidMessageId:
        return str(text)
    if found.partition >= 0 or found.batch_index < 0:
        return str(found)
    return f"{found.ledger_id}:{found.entry_id}:{found.batch_index}"


def error_text(error: str, parameters: Mapping[str, Any]) -> str:
    """Return an act's error, with the act's message id written as on the pages."""
    given = str(parameters.get("id", ""))
    return error.replace(given, _page_id(given)) if given else error


def _moment(time_ms: int) -> str:
    if not is_time(time_ms):
        return _("{number} (not a time)").format(number=time_ms)
    return f"{time_text(time_ms)} {zone_name()}"


def sentence(text: str, names: Iterable[str]) -> str:
    """Return a text as a sentence, with a capital letter and a full stop.

    If the text begins with one of `names`, the first letter does not change.
    """
    text = _COUNTED.sub(lambda found: count(int(found[0])), text.strip())
    known = {known for name in names for known in (name, name.rpartition("/")[2]) if known}
    begins_with_name = _NAME.match(text) or any(
        text.startswith(name) and not text[len(name) : len(name) + 1].isalnum() for name in known
    )
    begin = text[:1] if begins_with_name else text[:1].upper()
    if text.endswith((".", "!", "?", "。")):
        return begin + text[1:]
    own = _QUOTED.sub("", text)  # Ignore quoted names, which may be in any language
    return begin + text[1:] + ("。" if own.rstrip()[-1:] > _LAST_LATIN else ".")


def must_type_name(
    kind: str, plan: Mapping[str, Any] | None, allowed_drift_messages: int | None = None
) -> bool:
    """Return whether an operator must type a name to apply the act.

    If given, `allowed_drift_messages` replaces the plan's value.
    """
    if plan is None:
        return False
    if kind in ENDINGS:
        return True
    if allowed_drift_messages is None:
        allowed_drift_messages = int(plan.get("allowed_drift_messages") or 0)
    most_replayed = int(plan.get("replayed_messages") or 0) + allowed_drift_messages
    return most_replayed > TYPED_ABOVE_MESSAGES or loses_messages(plan)


def loses_messages(plan: Mapping[str, Any]) -> bool:
    """Return whether the act skips or loses messages. Messages sent to a dead-letter topic do not count."""
    skipped = int(plan.get("skipped_messages") or 0) - int(plan.get("letter_messages") or 0)
    return skipped + int(plan.get("lost_messages") or 0) > 0


def acked_meanwhile(plan: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """Return how the acks between preview and act changed the result, or "" if they did not.

    The page shows the text below the number of acked messages. The text calls these messages "them", as in "3 of them
    were not skipped".
    """
    more = int(result.get("replayed_messages") or 0) - int(plan.get("replayed_messages") or 0)
    spared = int(plan.get("skipped_messages") or 0) - int(result.get("skipped_messages") or 0)
    spared += int(result.get("published_meanwhile_messages") or 0) if "standing" in plan else 0
    words = []
    if more > 0:
        again = ngettext(
            "{number} of them is delivered again too", "{number} of them are delivered again too", more
        )
        words.append(again.format(number=count(more)))
    elif more < 0:
        fewer = ngettext(
            "{number} of them is not delivered again", "{number} of them are not delivered again", -more
        )
        words.append(fewer.format(number=count(-more)))
    if spared > 0:
        left = ngettext("{number} of them was not skipped", "{number} of them were not skipped", spared)
        words.append(left.format(number=count(spared)))
    return ", ".join(words)


def _length(length_ms: int) -> str:
    for unit_ms, word in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if length_ms >= unit_ms and length_ms % unit_ms == 0:
            return f"{count(length_ms // unit_ms)}\u202f{word}"
    return f"{count(length_ms)}\u202fms"


def _messages(number: int | None) -> str:
    n = 0 if number is None else number
    return ngettext("{number} message", "{number} messages", n).format(number=count(number))
