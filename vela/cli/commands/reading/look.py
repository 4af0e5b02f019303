"""`vela peek`, `examine`, `backlog` and `why`: look at a topic or a subscription without consuming anything."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import click

from vela.cli.console import console_api
from vela.cli.errors import as_json_is_asked, say
from vela.cli.options import json_option
from vela.cli.parameters import SUBSCRIPTION, TOPIC
from vela.cli.start import MESSAGE_ID
from vela.cli.text.names import short_name, subscription_path, topic_path
from vela.cli.text.numerals import UNKNOWN, count, length, messages, plural, rate, size
from vela.cli.text.output import emit, facts, lines_of, print_rich, table, toned
from vela.cli.text.times import exact_moment, moment

__all__ = ["backlog", "examine", "peek", "why"]


@click.command()
@click.argument("topic", type=TOPIC)
@click.argument("subscription", type=SUBSCRIPTION)
@click.option(
    "-n",
    "--count",
    "limit",
    type=click.IntRange(1, 100),
    default=20,
    show_default=True,
    help="Number of messages to show.",
)
@json_option
def peek(topic: str, subscription: str, limit: int) -> None:
    """Show the next messages that a subscription has not acknowledged.

    This does not consume them. It shows up to 200 characters of each payload.
    """
    with console_api() as api:
        found = api.get(f"{subscription_path(topic, subscription)}/peek", limit=limit)["messages"]
    if as_json_is_asked():
        for message in found:
            emit(message)
    elif found:
        print_rich(
            table(
                ("id", "stored", "key", "size", "payload"),
                [
                    (
                        message["id"],
                        moment(message["append_ms"]),
                        UNKNOWN if message["key"] is None else message["key"],
                        size(message["size_bytes"]),
                        message["trouble"] or message["preview"],
                    )
                    for message in found
                ],
                right=("size",),
            )
        )
    else:
        say("no message waits")


@click.command()
@click.argument("topic", type=TOPIC)
@click.option(
    "--position",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Place of the message; 1 is the first, or with --from latest the last.",
)
@click.option(
    "--from",
    "origin",
    type=click.Choice(["earliest", "latest"]),
    default="earliest",
    show_default=True,
    help="Count places from the first or the last message.",
)
@click.option(
    "--id",
    "message_id",
    type=MESSAGE_ID,
    metavar="LEDGER:ENTRY[:INDEX]",
    help="Show this message instead, with up to 1 MiB of its payload, and its state and story on each subscription.",
)
@json_option
def examine(topic: str, position: int, origin: str, message_id: str | None) -> None:
    """Show one message of a topic by its place, or by its id.

    This does not consume the message.
    """
    with console_api() as api:
        asked: dict[str, str | int] = {"position": position, "from": origin}
        path = topic_path(topic)
        if message_id is None:
            message = api.get(f"{path}/examine", **asked)
        else:
            message = api.get(f"{path}/messages/{message_id}")
            message["story"] = api.get(f"{path}/messages/{message_id}/story")
    if as_json_is_asked():
        emit(message)
        return
    print_rich(
        facts(
            [
                ("id", message["id"]),
                ("stored", moment(message["append_ms"])),
                ("published", f"{moment(message['publish_ms'])} by {message['producer'] or UNKNOWN}"),
                ("key", UNKNOWN if message["key"] is None else message["key"]),
                ("size", size(message["size_bytes"])),
                *_delivery(message),
                *((f"property {name}", value) for name, value in message["properties"]),
                *((f"on {each['subscription']}", _state(each)) for each in message.get("states", ())),
                *_story(message.get("story", {"subscriptions": ()})),
                ("payload", lines_of(message["trouble"] or message.get("payload") or message["preview"])),
            ]
        )
    )


def _state(state: dict[str, Any]) -> str:
    words = str(state["state"])
    if state["consumer"] is not None:
        words += f" at {state['consumer']} since {moment(state['delivered_ms'])}"
    if state["redelivery_count"]:
        words += f", redelivered {plural(state['redelivery_count'], 'time')}"
    if state["due_ms"]:
        words += f" until {moment(state['due_ms'])}"
    return f"{words}; a hole" if state["is_hole"] else words


def _story(story: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the events on each subscription, oldest first, then a sentence that says which events Vela records."""
    for each in story["subscriptions"]:
        for number, event in enumerate(each["events"]):
            later = "" if event["until_ms"] == event["at_ms"] else f" to {exact_moment(event['until_ms'])}"
            title = "" if number else f"story on {each['subscription']}"
            yield title, f"{exact_moment(event['at_ms'])}{later}: {event['words']}"
        if each["left_out"] is not None:
            missing = plural(each["left_out"]["events"], "event")
            yield "", f"not recorded: {missing} of this message or its neighbours"
    if "words" in story:
        yield "recorded", story["words"]


def _delivery(message: dict[str, Any]) -> list[tuple[str, str]]:
    return [("not delivered before", moment(message["deliver_at_ms"]))] if message["deliver_at_ms"] else []


@click.command()
@click.argument("topic", type=TOPIC)
@click.argument("subscription", type=SUBSCRIPTION)
@click.option(
    "--entries",
    type=click.IntRange(1, 10_000),
    default=10_000,
    show_default=True,
    help="Read at most this many entries.",
)
@json_option
def backlog(topic: str, subscription: str, entries: int) -> None:
    """Show what a subscription's backlog consists of.

    It counts unacknowledged messages, and stops after two minutes.
    """
    with console_api(timeout_s=150) as api:
        found = api.get(f"{subscription_path(topic, subscription)}/backlog", entries=entries)
    if as_json_is_asked():
        emit(found)
        return
    print_rich(
        facts(
            [
                ("read", plural(found["entries"], "entry", "entries")
                 + ("" if found["is_whole"] else f", stopped by the limit of {found['stopped_by']}: there is more")),
                ("messages", count(found["messages"])),
                ("stored", size(found["bytes"])),
                ("payloads", size(found["payload_bytes"])),
                ("properties", size(found["properties_bytes"])),
                ("oldest", moment(found["oldest_append_ms"])),
                ("newest", moment(found["newest_append_ms"])),
                ("not due yet", messages(found["delayed"])),
                ("batches", count(found["batches"])),
                ("partly acked", f"{count(found['partly_acked'])} entries"),
                ("encrypted", f"{count(found['encrypted'])} entries"),
                ("corrupt", f"{count(found['corrupt'])} entries"),
                ("too large to decode", f"{count(found['too_large'])} entries"),
                ("without a key", messages(found["without_key"])),
            ]
        )
    )  # fmt: skip
    if found["keys"]:
        print_rich(
            "",
            table(
                ("key", "messages"),
                [(row["key"], count(row["messages"])) for row in found["keys"]],
                right=("messages",),
            ),
        )


# The word, as in the console, and the tone of each severity of the API.
_SEVERITIES = {
    "stopped": ("critical", "bad"),
    "slow": ("warning", "warn"),
    "notice": ("notice", "calm"),
    "fine": ("fine", "good"),
}
_ACTS = {
    "disconnect": "disconnect {topic} {subscription} {whom}",
    "redeliver": "redeliver {topic} {subscription} {whom}",
    "reset": "reset {topic} {subscription} --id LEDGER:ENTRY",  # the user chooses the place
    "resume": "resume {topic} {subscription}",
    "send_to_dead_letters": "dead-letter {topic} {subscription} --id {id}",
    "skip_one": "skip {topic} {subscription} --id {id}",
}


@click.command()
@click.argument("topic", type=TOPIC)
@click.argument("subscription", type=SUBSCRIPTION)
@json_option
def why(topic: str, subscription: str) -> None:
    """Say why a subscription does not drain.

    The leading cause comes first, with the numbers that prove it and what you can do. A finding on several partitions
    is shown once, with the numbers of one of them.
    """
    with console_api() as api:
        found = api.get(f"{subscription_path(topic, subscription)}/diagnosis")
    if as_json_is_asked():
        emit(found)
        return
    for number, finding in enumerate(found["findings"]):
        word, tone = _SEVERITIES.get(finding["severity"], (finding["severity"], "calm"))
        print_rich(
            *([""] if number else []),
            toned(f"{word}: {finding['sentence']}", tone),
            *_where(finding),
            facts((f"  {item['label']}", _value(item)) for item in finding["evidence"]),
            *(
                lines_of(f"  → {_cure(cure, _acted_on(finding, topic), subscription)}")
                for cure in finding["cures"]
            ),
            lines_of(f"  runbook: {finding['runbook']}"),
        )
    if found["partitions_left_out"]:
        say(f"not looked at: {plural(found['partitions_left_out'], 'partition')} in a better state")


def _where(finding: dict[str, Any]) -> Iterator[str]:
    """Say on which partitions of a partitioned topic something was found."""
    if len(finding["partitions"]) == 1:
        yield f"  on partition {finding['partition']}"
    elif finding["partitions"]:
        partitions = ", ".join(map(str, finding["partitions"]))
        yield f"  on partitions {partitions}; these are the numbers of partition {finding['partition']}"


def _acted_on(finding: dict[str, Any], topic: str) -> str:
    """Return the topic that the cures change; on a partitioned topic, the partition that the numbers describe."""
    return topic if finding["partition"] is None else f"{topic}-partition-{finding['partition']}"


def _value(item: dict[str, Any]) -> str:
    value, unit = item["value"], item["unit"]
    if unit == "time":
        return moment(value) if value else UNKNOWN
    match unit:
        case "text":
            return value or UNKNOWN
        case "seconds":
            return length(value)
        case "per second":
            return rate(value)
        case "bytes":
            return size(value)
        case "entries":
            return plural(round(value), "entry", "entries")
        case _:
            return plural(round(value), unit.removesuffix("s"))


def _cure(cure: dict[str, Any], topic: str, subscription: str) -> str:
    """Return what to do. If the cure is an act, append the `vela` command for it."""
    if cure["act"] not in _ACTS:
        return str(cure["text"])
    names = {"topic": short_name(topic), "subscription": subscription, **cure["parameters"]}
    quoted = {name: shlex.quote(str(value)) for name, value in names.items()}
    whom = f"--key {quoted['consumer_key']}" if "consumer_key" in quoted else quoted.get("consumer", "")
    command = _ACTS[cure["act"]].format(whom=whom, **quoted)
    return f"{cure['text']}: vela {command}"
