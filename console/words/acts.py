"""Acts in words: what was requested, which state an act is in, and whether an operator must type a name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from broker.acts.requests import TYPED_ABOVE_MESSAGES
from console.words.numerals import count, is_time, time_text, zone_name

__all__ = [
    "ENDINGS",
    "KINDS",
    "OF_USERS",
    "STATES",
    "acked_meanwhile",
    "asked",
    "loses_messages",
    "must_type_name",
    "sentence",
    "state_word",
    "title",
]

KINDS = {
    "reset": "Reset",
    "skip": "Skip",
    "skip_one": "Skip one message",
    "clear": "Clear backlog",
    "expire": "Expire",
    "undo": "Undo",
    "pause": "Pause",
    "resume": "Resume",
    "disconnect": "Disconnect",
    "redeliver": "Redeliver",
    "create_subscription": "Create subscription",
    "delete_subscription": "Delete subscription",
    "create_bookmark": "Create bookmark",
    "delete_bookmark": "Delete bookmark",
    "send_to_dead_letters": "Send to dead letters",
    "redrive": "Redrive",
    "publish": "Publish a message",
    "set_namespace_policies": "Set policies",
    "set_topic_policies": "Set policies",
    "create_namespace": "Create namespace",
    "delete_namespace": "Delete namespace",
    "skip_entries": "Skip entries",
    "set_subscription_properties": "Set subscription properties",
    "delete_schema": "Delete schema",
    "set_tenant": "Set tenant",
    "delete_tenant": "Delete tenant",
    "create_topic": "Create topic",
    "update_partitions": "Add partitions",
    "compact": "Compact topic",
    "delete_compaction": "Delete compaction",
    "terminate": "Terminate topic",
    "truncate": "Truncate topic",
    "unload": "Unload topic",
    "delete_topic": "Delete topic",
    "run_job": "Run job",
    "continue_job": "Continue job",
    "cancel_job": "Cancel job",
    "schedule_job": "Schedule job",
    "unschedule_job": "Delete schedule",
    "seek": "Client seek",
    "unsubscribe": "Unsubscribe",
    "commit": "Commit by a pull consumer",
    "evict": "Skip messages over the backlog quota",
    "expire_subscription": "Delete unused subscription",
    "set_role": "Set role",
    "create_user": "Create user",
    "set_password": "Set password",
    "activate_user": "Activate user",
    "deactivate_user": "Deactivate user",
    "add_second_factor": "Add second factor",
    "remove_second_factor": "Remove second factor",
    "renew_recovery_codes": "Renew recovery codes",
    "create_token": "Create token",
    "revoke_token": "Revoke token",
    "set_permissions": "Set permissions",
    "set_alert_rule": "Set alert rule",
    "delete_alert_rule": "Delete alert rule",
    "silence_alert_rule": "Silence alert rule",
    "test_alert_rule": "Test alert rule",
}
ENDINGS: Final = frozenset(("delete_subscription", "delete_topic", "terminate", "truncate"))
"""Kinds that nobody can undo, even where they skip no message."""
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
"""Kinds that change a user, without a plan."""
STATES = {
    "plan_requested": ("waiting for a plan", "warn"),
    "planned": ("planned", "calm"),
    "apply_requested": ("waiting to be applied", "warn"),
    "applying": ("being applied", "warn"),
    "applied": ("applied", "good"),
    "refused": ("refused", "bad"),
    "failed": ("failed", "bad"),
    "expired": ("expired", "calm"),
    "client": ("in progress", "warn"),
}


# A number of things in the broker's words, for example in "12408 messages". Ids and names stay as they are.
_COUNTED: Final = re.compile(
    r"(?<![^\s(])[0-9]{4,15}(?= (?:more|messages?|entries|entry|consumers?|partitions?|in all)\b)"
)


def title(kind: str) -> str:
    """Return an act's kind as a heading."""
    return KINDS.get(kind, kind.capitalize())


def state_word(state: str) -> tuple[str, str]:
    """Return the word and the tone of a state."""
    return STATES.get(state, (state, "calm"))


def asked(kind: str, parameters: Mapping[str, Any], undo_of: int | None) -> str:
    """Return what was requested as a phrase: "rewind by 15 min", "clear the backlog on partitions 0,2"."""
    phrase = _asked(kind, parameters, undo_of)
    chosen = parameters.get("partitions")
    if not isinstance(chosen, str):
        return phrase
    return f"{phrase} on {'partition' if chosen.isdigit() else 'partitions'} {chosen}"


def _asked(kind: str, parameters: Mapping[str, Any], undo_of: int | None) -> str:
    if kind == "undo":
        return f"undo act {undo_of}" if undo_of is not None else "undo"
    if kind == "skip":
        return f"skip {_messages(parameters.get('messages'))}"
    if kind == "skip_entries":
        return f"skip {parameters.get('entries', '–')} entries"
    if kind == "clear":
        return "clear the backlog"
    if kind == "skip_one":
        return f"skip message {parameters.get('id', '–')}"
    if kind == "send_to_dead_letters":
        return f"send message {parameters.get('id', '–')} to the dead letters"
    if kind == "expire":
        return _expire(parameters)
    if kind in ("disconnect", "redeliver"):
        who = parameters.get("consumer") or f"consumer {parameters.get('consumer_key', '–')}"
        return f"disconnect {who}" if kind == "disconnect" else f"redeliver the unacked messages of {who}"
    if kind in ("create_topic", "create_subscription", "create_bookmark", "delete_bookmark"):
        return f"{KINDS[kind].lower()} {parameters.get('name', '–')}"
    if kind == "reset":
        return _reset(parameters)
    if kind in ("set_namespace_policies", "set_topic_policies"):
        return _set_policies(parameters)
    if kind == "commit":
        return f"commit offset {parameters.get('offset', '–')}"
    if kind == "run_job":
        return f"run {parameters.get('job', '–')}"
    if kind == "schedule_job":
        return f"run {parameters.get('job', '–')} every {parameters.get('every_minutes', '–')} minutes"
    if kind in ("continue_job", "cancel_job"):
        return f"{kind.removesuffix('_job')} run {parameters.get('run', '–')}"
    if kind == "unschedule_job":
        return f"delete schedule {parameters.get('schedule', '–')}"
    if kind == "publish":
        return "publish " + (f"{parameters['copy_of']} again" if parameters.get("copy_of") else "a message")
    if kind.endswith("_alert_rule"):
        return f"{KINDS[kind].lower()} {parameters.get('name', '–')}"
    if kind == "set_role":
        user, role = parameters.get("user", "–"), parameters.get("role")
        return f"make {user} {role}" if role else f"take a role from {user}"
    if kind in ("create_token", "revoke_token"):
        return f"{KINDS[kind].lower()} {parameters.get('token', '–')} of {parameters.get('role') or 'a role elsewhere'}"
    if kind == "set_permissions":
        allowed = ", ".join(parameters.get("permissions") or ()) or "nothing"
        return f"allow {parameters.get('role', '–')}: {allowed}"
    if kind == "set_password":
        return f"set the password of {parameters.get('user', '–')}"
    if kind in ("create_user", "activate_user", "deactivate_user"):
        return f"{KINDS[kind].lower()} {parameters.get('user', '–')}"
    if kind in ("add_second_factor", "remove_second_factor", "renew_recovery_codes"):
        return f"{KINDS[kind].lower()} of {parameters.get('user', '–')}"
    if kind == "update_partitions":
        return f"grow to {parameters.get('partitions', '–')} partitions"
    return KINDS.get(kind, kind).lower()


def _reset(parameters: Mapping[str, Any]) -> str:
    to = parameters.get("to")
    if to == "back_time":
        return f"rewind by {_length(parameters.get('back_ms', 0))}"
    if to == "shift":
        messages = int(parameters.get("messages") or 0)
        return f"{'rewind' if messages < 0 else 'advance'} by {_messages(abs(messages))}"
    if to == "time":
        return f"reset to {_moment(parameters.get('time_ms', 0))}"
    if to == "id":
        return f"reset to {'' if parameters.get('inclusive', True) else 'after '}{parameters.get('id', '–')}"
    if to == "like":
        return f"reset to where {parameters.get('like', '–')} is"
    if to == "bookmark":
        return f"reset to bookmark {parameters.get('bookmark', '–')}"
    return f"reset to {'the beginning' if to == 'earliest' else 'the end'}"


def _set_policies(parameters: Mapping[str, Any]) -> str:
    changes = [f"{name} = {value}" for name, value in (parameters.get("set") or {}).items()]
    if parameters.get("unset"):
        changes.append(f"unset {parameters['unset']}")
    return "set policies: " + ", ".join(changes)


def _expire(parameters: Mapping[str, Any]) -> str:
    to = parameters.get("to")
    if to == "time":
        return f"expire messages stored before {_moment(parameters.get('time_ms', 0))}"
    if to == "older":
        return f"expire messages older than {_length(parameters.get('older_ms', 0))}"
    return f"expire up to {parameters.get('id', '–')}"


def _moment(time_ms: int) -> str:
    if not is_time(time_ms):
        return f"{time_ms} (not a time)"
    return f"{time_text(time_ms)} {zone_name()}"


def sentence(text: str, names: Iterable[str]) -> str:
    """Give words a capital letter and a full stop. One of these names, or its local part, keeps its case."""
    text = _COUNTED.sub(lambda found: count(int(found[0])), text.strip())
    known = {known for name in names for known in (name, name.rpartition("/")[2]) if known}
    begins_with_name = any(
        text.startswith(name) and not text[len(name) : len(name) + 1].isalnum() for name in known
    )
    begin = text[:1] if begins_with_name else text[:1].upper()
    return begin + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def must_type_name(
    kind: str, plan: Mapping[str, Any] | None, allowed_drift_messages: int | None = None
) -> bool:
    """Return whether an operator must type a name: the act ends something, loses messages or repeats many.

    `allowed_drift_messages` more than planned may be delivered again, and they count too. None means as many as the
    plan allows.
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
    """Return whether messages will never be delivered. A message copied to a dead-letter topic is not lost."""
    skipped = int(plan.get("skipped_messages") or 0) - int(plan.get("letter_messages") or 0)
    return skipped + int(plan.get("lost_messages") or 0) > 0


def acked_meanwhile(plan: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """Return what happened to messages acked between preview and act. Empty if nothing happened to any."""
    more = int(result.get("replayed_messages") or 0) - int(plan.get("replayed_messages") or 0)
    spared = int(plan.get("skipped_messages") or 0) - int(result.get("skipped_messages") or 0)
    spared += int(result.get("published_meanwhile_messages") or 0) if "standing" in plan else 0
    words = []
    if more > 0:
        words.append(f"{count(more)} of them {'is' if more == 1 else 'are'} delivered again too")
    elif more < 0:
        words.append(f"{count(-more)} of them {'is' if more == -1 else 'are'} not delivered again")
    if spared > 0:
        words.append(f"{count(spared)} of them {'was' if spared == 1 else 'were'} not skipped")
    return ", ".join(words)


def _length(length_ms: int) -> str:
    """Return a length of time in the largest unit that divides it, as the operator asked for it."""
    for unit_ms, word in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if length_ms >= unit_ms and length_ms % unit_ms == 0:
            return f"{count(length_ms // unit_ms)}\u202f{word}"
    return f"{count(length_ms)}\u202fms"


def _messages(number: int | None) -> str:
    return f"{count(number)} message" + ("" if number == 1 else "s")
