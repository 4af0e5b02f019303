"""What is in a log and in a backlog, read without consuming anything; the connection cannot write."""

from __future__ import annotations

from dataclasses import asdict

from django.http import HttpRequest, HttpResponseBase, JsonResponse

from console.access import Rights
from console.api.access import api
from console.api.found import found_subscription, found_topic
from console.api.problems import Problem
from console.api.query import choice, number
from console.queries.analysis import ANALYSED_ENTRIES, ANALYSED_S, analyse
from console.queries.backlog import next_messages
from console.queries.examine import examine

__all__ = ["analysed", "examined", "peeked"]

PEEK_MOST = 100


@api("GET", "HEAD", payloads=True)
def peeked(request: HttpRequest, rights: Rights, topic: str, name: str) -> HttpResponseBase:
    """The next unacknowledged messages of a subscription."""
    limit = number(request, "limit", default=20, least=1, most=PEEK_MOST)
    messages = next_messages(found_subscription(topic, name), limit)
    return JsonResponse({"messages": [asdict(each) | {"id": each.message_id} for each in messages]})


@api("GET", "HEAD", payloads=True)
def examined(request: HttpRequest, rights: Rights, topic: str) -> HttpResponseBase:
    """One message of a topic by its place: 1 is the first from the earliest, or the last from the latest."""
    head = found_topic(topic)
    origin = choice(request, "from", ("earliest", "latest"))
    position = number(request, "position", default=1, least=1, most=10**15)
    found = examine(head.id, position=position, from_end=origin == "latest")
    if found is None and head.partitions:
        raise Problem(
            404,
            "MessageNotFound",
            f"{topic} is partitioned, and each partition has messages of its own: name {topic}-partition-0,"
            " or another one",
        )
    if found is None:
        raise Problem(404, "MessageNotFound", f"{topic} keeps fewer than {position} messages")
    return JsonResponse(asdict(found) | {"id": found.message_id})


@api("GET", "HEAD", payloads=True)
def analysed(request: HttpRequest, rights: Rights, topic: str, name: str) -> HttpResponseBase:
    """What the backlog is made of, as far as it is looked at."""
    most = number(request, "entries", default=ANALYSED_ENTRIES, least=1, most=ANALYSED_ENTRIES)
    return JsonResponse(asdict(analyse(found_subscription(topic, name), entries=most, seconds=ANALYSED_S)))
