"""The page of one message, and its payload as a file."""

from __future__ import annotations

import base64
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.access import Rights, viewer
from console.addresses import message_url
from console.blocks import Source, answer
from console.messages.asked import Spot, read_spot
from console.messages.decoders.hexadecimal import hex_dump
from console.messages.decoders.tree import tree_of
from console.messages.entries import Trouble
from console.messages.message import (
    FoundMessage,
    MessageMissing,
    body_of,
    find_message,
    key_neighbours,
    partition_of,
    states_of,
)
from console.messages.peek import preview_of
from console.queries.topics.topic import TopicHead, topic_head
from console.story.told import kept_of, stories_of
from console.story.words import recorded
from vela.wire.compression import Compression
from vela.wire.entry import decode_encrypted
from vela.wire.errors import EntryCorrupt

__all__ = ["message", "raw_message"]

VIEWS = ("tree", "text", "hex")
TREE_NODES = 500
TREE_NODES_MOST = 10_000


@require_safe
@viewer
def message(request: HttpRequest, rights: Rights, topic: str, spot: str) -> HttpResponseBase:
    """Show one message."""
    head, asked = _head_and_spot(topic, spot)
    if head.partitions:
        return _to_partition(head, asked)
    found = _found(head, asked)
    shows_all = request.GET.get("all") == "1"
    view = request.GET.get("body", "")

    def body() -> dict[str, Any]:
        return {
            "head": head,
            "found": found,
            **_contents(found, head, rights, view=view, shows_all=shows_all),
        }

    sources = [
        Source(name="message", template="console/parts/message/message.html", live=(), context=body),
        Source(
            name="subscriptions",
            template="console/parts/message/subscriptions.html",
            live=(f"topic:{head.id}",),
            context=lambda: _subscriptions(head, found),
        ),
        Source(
            name="neighbours",
            template="console/parts/message/neighbours.html",
            live=(),
            context=lambda: _neighbours(head, found, rights),
        ),
    ]
    context = {"head": head, "found": found, "nav": "topics"}
    return answer(request, rights, "console/pages/message.html", sources, context)


@require_safe
@viewer
def raw_message(request: HttpRequest, rights: Rights, topic: str, spot: str) -> HttpResponse:
    """Send the payload as a file."""
    if not rights.may_see_payloads:
        return HttpResponse(
            _("You need the reader role for {place} to read payloads.").format(place=rights.place) + "\n",
            status=403,
            content_type="text/plain",
        )
    head, asked = _head_and_spot(topic, spot)
    found = _found(head, asked)
    response = HttpResponse(found.payload, content_type="application/octet-stream")
    response["Content-Disposition"] = f'attachment; filename="{str(found.spot).replace(":", "-")}.bin"'
    response["Cache-Control"] = "private, no-store"
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _subscriptions(head: TopicHead, found: FoundMessage) -> dict[str, Any]:
    states = states_of(found)
    stories = stories_of(found, states)
    return {
        "head": head,
        "found": found,
        "states": states,
        "rows": [(cursor, state, stories[cursor.id]) for cursor, state in states.rows],
        "recorded": recorded(kept_of(head)),
    }


def _neighbours(head: TopicHead, found: FoundMessage, rights: Rights) -> dict[str, Any]:
    try:
        same_key = key_neighbours(found, head) if rights.may_see_payloads else None
    except MessageMissing as error:
        raise Http404(str(error)) from None
    return {"head": head, "found": found, "same_key": same_key}


def _head_and_spot(topic: str, text: str) -> tuple[TopicHead, Spot]:
    head = topic_head(topic)
    if head is None:
        raise Http404(_("There is no topic {name}.").format(name=topic))
    try:
        return head, read_spot(text)
    except ValueError as error:
        raise Http404(str(error)) from None


def _to_partition(head: TopicHead, spot: Spot) -> HttpResponse:
    try:
        return redirect(message_url(partition_of(head, spot), spot))
    except MessageMissing as error:
        raise Http404(str(error)) from None


def _found(head: TopicHead, spot: Spot) -> FoundMessage:
    try:
        return find_message(head, spot)
    except MessageMissing as error:
        raise Http404(str(error)) from None


def _contents(
    found: FoundMessage, head: TopicHead, rights: Rights, *, view: str, shows_all: bool
) -> dict[str, Any]:
    opened, metadata = found.opened, found.metadata
    shown: dict[str, Any] = {"compression": _compression(found), "explained": _explained(found)}
    if not rights.may_see_payloads:
        return shown
    body = body_of(found, head, shows_all=shows_all)
    decoded = body.decoded
    shown |= {
        "metadata": metadata,
        "properties": sorted(metadata.properties.items()) if metadata is not None else [],
        "key_bytes": _key_bytes(found),
        "ordering_key": ""
        if metadata is None or not metadata.ordering_key
        else preview_of(metadata.ordering_key)[0],
        "body": body,
        "shows_all": shows_all,
        "trouble": opened.trouble,
    }
    fallback = "tree" if decoded.has_value else "text" if decoded.text or not decoded.data else "hex"
    chosen = view if view in VIEWS else fallback
    if (chosen == "tree" and not decoded.has_value) or (
        chosen == "text" and not decoded.text and decoded.data
    ):
        chosen = fallback
    shown["views"] = [name for name in VIEWS if name != "tree" or decoded.has_value]
    shown["view"] = chosen
    match chosen:
        case "tree":
            shown["tree"] = tree_of(decoded.value, TREE_NODES_MOST if shows_all else TREE_NODES)
        case "hex":
            shown["dump"] = hex_dump(decoded.data)
    return shown


def _compression(found: FoundMessage) -> str:
    header = found.opened.header
    if header is None or not header.compression:
        return ""
    known = {each.value: each.name for each in Compression}
    return known.get(header.compression, _("codec {compression}").format(compression=header.compression))


def _explained(found: FoundMessage) -> str:
    header = found.opened.header
    match found.opened.trouble:
        case Trouble.ENCRYPTED:
            try:
                keys = decode_encrypted(bytes(found.opened.stored.data)).keys
            except EntryCorrupt:
                keys = ()
            names = ", ".join(key.name for key in keys) or _("keys without a readable name")
            return _(
                "The producer encrypted the payload for {names}. Only a consumer with one of these keys can read it;"
                " the console has none."
            ).format(names=names)
        case Trouble.CHUNK if header is not None:
            return _(
                "This is chunk {chunk} of {chunks} of a large message of"
                " {bytes} bytes. Consumers join the chunks; the console shows this one as it is"
                " stored. The other chunks are near it, with the same producer and sequence id."
            ).format(chunk=header.chunk_id + 1, chunks=header.num_chunks, bytes=header.total_chunk_bytes)
        case Trouble.CORRUPT:
            return _(
                "The entry {why}. The broker does not deliver it: it acknowledges the entry and counts it"
                " among the problems of the subscription."
            ).format(why=found.opened.why)
        case Trouble.TOO_LARGE:
            return _("The entry is too large for this page.")
    return ""


def _key_bytes(found: FoundMessage) -> str:
    message = found.metadata
    if message is None or not message.key_b64 or message.key is None:
        return ""
    try:
        return preview_of(base64.b64decode(message.key, validate=True))[0]
    except ValueError:
        return ""
