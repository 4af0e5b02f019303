"""Describe an act in words: the request, the plan and the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from vela.cli.text.names import short_name
from vela.cli.text.numerals import count, messages, plural
from vela.cli.text.times import exact_moment, moment
from vela.core.topic_name import partition_index

__all__ = ["asked_words", "effect_words", "headline", "plan_facts", "receipt_words"]

_PLAIN: Final = {
    "clear": "skip the whole backlog",
    "pause": "stop delivery until it is resumed",
    "resume": "deliver again",
    "compact": "compact the topic",
    "delete_compaction": "delete what compaction keeps",
    "terminate": "end the topic",
    "truncate": "empty the topic",
    "unload": "remove the topic from memory",
    "delete_topic": "delete the topic",
    "delete_subscription": "delete the subscription",
    "redrive": "redrive dead letters",
}
# Acts whose parameter `partitions` is a number of partitions.
_OF_THE_TOPIC: Final = ("create_topic", "update_partitions")
_MOVES: Final = ("back_time", "shift")


def headline(act: Mapping[str, Any]) -> str:
    """Return a headline such as `act 7: reset to the beginning, billing on orders`."""
    topic = short_name(act["topic"]) if "://" in act["topic"] else act["topic"]
    about = f"{act['subscription']} on {topic}" if act["subscription"] else topic
    if (chosen := act["parameters"].get("partitions")) is not None and act["kind"] not in _OF_THE_TOPIC:
        about += f", partitions {chosen}"
    return f"act {act['id']}: {asked_words(act)}, {about}"


def asked_words(act: Mapping[str, Any]) -> str:
    """Return a phrase that says what was requested."""
    kind, given = str(act["kind"]), act["parameters"]
    if kind == "undo":
        return f"undo act {act['undo_of']}"
    if kind == "reset":
        return f"reset to {_place(given)}" if given.get("to") not in _MOVES else _move(given)
    if kind == "skip":
        return f"skip {messages(given['messages'])}"
    if kind == "skip_one":
        return f"skip message {given['id']}"
    if kind == "send_to_dead_letters":
        return f"send message {given['id']} to the dead letters"
    if kind == "expire":
        return _expire(given)
    if kind in ("disconnect", "redeliver"):
        who = given.get("consumer") or f"consumer number {given.get('consumer_key')}"
        return f"disconnect {who}" if kind == "disconnect" else f"redeliver the messages of {who}"
    if kind in ("create_subscription", "create_bookmark"):
        what = "subscription" if kind == "create_subscription" else "bookmark"
        return f"create {what} {given['name']} at {_place(given)}"
    if kind in ("create_topic", "delete_bookmark"):
        return f"{kind.replace('_', ' ')} {given['name']}"
    if kind == "commit":
        return f"commit offset {given['offset']}"
    if kind == "run_job":
        return f"run {given['job']}"
    if kind == "schedule_job":
        return f"run {given['job']} every {plural(given['every_minutes'], 'minute')}"
    if kind in ("continue_job", "cancel_job"):
        return f"{kind.removesuffix('_job')} run {given['run']}"
    if kind == "unschedule_job":
        return f"delete schedule {given['schedule']}"
    if kind == "update_partitions":
        return f"grow to {plural(given['partitions'], 'partition')}"
    if kind in ("set_namespace_policies", "set_topic_policies"):
        changes = [f"{name} = {value}" for name, value in (given.get("set") or {}).items()]
        changes += [f"unset {given['unset']}"] if given.get("unset") else []
        return f"set policies: {', '.join(changes)}"
    return _PLAIN.get(kind, kind.replace("_", " "))


def effect_words(effect: Mapping[str, Any], *, is_done: bool = False) -> Iterator[str]:
    """Yield a plan or a result as sentences."""
    if effect.get("words"):
        yield from effect["words"]
        return
    replayed, skipped = effect["replayed_messages"], effect["skipped_messages"]
    again = "is delivered again" if replayed == 1 else "are delivered again"
    passed = "was skipped" if is_done else "is skipped and never delivered"
    if skipped != 1:
        passed = passed.replace("was ", "were ").replace("is ", "are ")
    yield f"{messages(replayed)} {again}, {count(skipped)} {passed}"
    closed, kept = effect["consumers_closed"], effect.get("consumers_kept", 0)
    if closed:
        closing = "was closed" if is_done else "is closed"
        back = "and reconnects by itself"
        if closed != 1:
            closing, back = (
                closing.replace("was ", "were ").replace("is ", "are "),
                "and reconnect by themselves",
            )
        yield f"{plural(closed, 'consumer')} {closing} {back}"
    elif kept:
        yield f"{plural(kept, 'consumer')} {'stays' if kept == 1 else 'stay'} connected"


def plan_facts(act: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return rows of name, value now and value after the move. Empty for acts that move no cursor."""
    plan = act["plan"] or {}
    if "current" not in plan:
        return []
    if "partitions" in plan:
        now, after = plan["current"]["backlog_messages"], plan["target"]["backlog_messages"]
        in_flight = messages(plan["in_flight_messages"])
        return [("backlog", messages(now), messages(after)), ("in flight", in_flight, "")]
    current, target = plan["current"], plan["target"]
    return [
        ("mark-delete", current["mark_delete"], target["mark_delete"]),
        ("backlog", messages(current["backlog_messages"]), messages(target["backlog_messages"])),
        ("in flight", messages(plan["in_flight_messages"]), ""),
        ("next message", _next_message(act, current), _next_message(act, target)),
        ("stored at", _stored_at(current), _stored_at(target)),
    ]


def _next_message(act: Mapping[str, Any], place: Mapping[str, Any]) -> str:
    if "next" not in place:  # The plan of an earlier Vela does not say what is next now.
        return ""
    return _first_left(act, place.get("inside")) or place["next"] or "none is stored"


def _stored_at(place: Mapping[str, Any]) -> str:
    stored_ms = place.get("next_append_ms")
    return "" if stored_ms is None else moment(stored_ms)


def receipt_words(act: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences about the result of an applied act."""
    result = act["result"] or {}
    if "replayed_messages" in result:
        yield from effect_words(result, is_done=True)
    if result.get("before"):
        yield f"mark-delete moved from {result['before']} to {result['after']}"
    if act["kind"] != "skip_one" and (first := _first_left(act, result.get("inside"))):
        yield f"that is inside a batch; its next message is {first}"
    if "backlog_messages" in result:
        waiting = result["backlog_messages"]
        yield f"{messages(waiting)} {'waits' if waiting == 1 else 'wait'} now"
    if meanwhile := result.get("acked_meanwhile_messages"):
        were = "was" if meanwhile == 1 else "were"
        yield f"{messages(meanwhile)} {were} acknowledged between plan and act{_became(act['plan'] or {}, result)}"
    if meanwhile := result.get("published_meanwhile_messages"):
        were = "was" if meanwhile == 1 else "were"
        yield f"{messages(meanwhile)} {were} published between plan and act"


def _became(plan: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """Return what the act did to messages that were acknowledged after its plan. Empty if it did nothing to them."""
    more = result.get("replayed_messages", 0) - plan.get("replayed_messages", 0)
    spared = plan.get("skipped_messages", 0) - result.get("skipped_messages", 0)
    if "standing" in plan:  # a delete: messages published since then are lost too
        spared += result.get("published_meanwhile_messages", 0)
    words = []
    if more > 0:
        words.append(f"{count(more)} of them {'is' if more == 1 else 'are'} delivered again too")
    elif more < 0:
        words.append(f"{count(-more)} of them {'is' if more == -1 else 'are'} not delivered again")
    if spared > 0:
        words.append(f"{count(spared)} of them {'was' if spared == 1 else 'were'} not skipped")
    return "".join(f"; {each}" for each in words)


def _first_left(act: Mapping[str, Any], inside: Mapping[str, str] | None) -> str | None:
    """If the cursor stopped inside a batch, return the id of the batch's first unacknowledged message. Else None."""
    left = int(inside["remaining"], 16) if inside else 0  # bit 0 is the first of the batch
    if inside is None or not left:
        return None
    return f"{inside['position']}:{partition_index(act['topic'])}:{(left & -left).bit_length() - 1}"


def _place(given: Mapping[str, Any]) -> str:
    match given.get("to"):
        case "earliest":
            return "the beginning"
        case "latest":
            return "the end"
        case "time":
            return exact_moment(given["time_ms"])
        case "back_time":
            return f"{_length(given['back_ms'])} ago"
        case "id":
            return ("" if given.get("inclusive", True) else "after ") + str(given["id"])
        case "like":
            return f"the position of {given['like']}"
        case "bookmark":
            return f"bookmark {given['bookmark']}"
        case _:
            return str(given.get("to"))


def _move(given: Mapping[str, Any]) -> str:
    if given["to"] == "back_time":
        return f"go back by {_length(given['back_ms'])}"
    number = int(given["messages"])
    return f"go {'back' if number < 0 else 'forward'} by {messages(abs(number))}"


def _expire(given: Mapping[str, Any]) -> str:
    if given["to"] == "time":
        return f"expire messages stored before {exact_moment(given['time_ms'])}"
    if given["to"] == "older":
        return f"expire messages older than {_length(given['older_ms'])}"
    return f"expire up to {given['id']}"


def _length(length_ms: int) -> str:
    for unit_ms, word in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if length_ms >= unit_ms and length_ms % unit_ms == 0:
            return f"{length_ms // unit_ms:,} {word}"
    return f"{length_ms:,} ms"
