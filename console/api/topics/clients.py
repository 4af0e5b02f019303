"""Operations that list connected consumers and producers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from ninja import Query, Router
from ninja.decorators import decorate_view
from pydantic import Field

from console.api.access import AuthorizedRequest
from console.api.answers import Consumers, Producers
from console.api.app import read
from console.api.conditional import with_etag
from console.api.pages import next_token, read_token
from console.api.parameters import Page, SearchText
from console.queries.clients import ClientPage, ClientsAsked
from console.queries.clients import consumers as read_consumers
from console.queries.clients import producers as read_producers

__all__ = ["router"]

router = Router()


class ListedClients(Page):
    """Filters for clients. A client must pass all filters."""

    topic: Annotated[
        SearchText, Field(description="part of a name, or a full name: that topic and its partitions")
    ] = ""
    name: Annotated[SearchText, Field(description="part of its name")] = ""
    address: Annotated[SearchText, Field(description="part of its address")] = ""
    version: Annotated[SearchText, Field(description="part of its client library's version")] = ""


class ListedConsumers(ListedClients):
    """Filters for consumers."""

    subscription: Annotated[SearchText, Field(description="part of a name")] = ""
    flag: Annotated[
        Literal["", "blocked", "not-reading", "ack-less", "silent", "hoarding", "old"],
        Field(description="only consumers with this flag"),
    ] = ""
    sort: Annotated[
        Literal["name", "unacked", "oldest", "since"],
        Field(description="oldest leaves out consumers without unacked messages, and readers"),
    ] = "name"


class ListedProducers(ListedClients):
    """Filters for producers."""

    flag: Annotated[Literal["", "refused", "old"], Field(description="only producers with this flag")] = ""
    sort: Literal["name", "rate", "since"] = "name"


@read(router, "/consumers", response=Consumers)
@decorate_view(with_etag)
def consumers(request: AuthorizedRequest, asked: Query[ListedConsumers]) -> dict[str, Any]:
    """List the connected consumers and readers of all topics, each with its problems."""
    page = read_consumers(
        _asked(asked, flag=asked.flag, sort=asked.sort, subscription=asked.subscription), request.auth.scope
    )
    return {"consumers": page.rows, "next_after": _following(page)}


@read(router, "/producers", response=Producers)
@decorate_view(with_etag)
def producers(request: AuthorizedRequest, asked: Query[ListedProducers]) -> dict[str, Any]:
    """List the connected producers of all topics, each with its problems."""
    page = read_producers(
        _asked(asked, flag=asked.flag, sort=asked.sort, subscription=""), request.auth.scope
    )
    return {"producers": page.rows, "next_after": _following(page)}


def _asked(asked: ListedClients, *, flag: str, sort: str, subscription: str) -> ClientsAsked:
    after, after_key = read_token(asked.after, "", 0)
    return ClientsAsked(
        topic=asked.topic,
        subscription=subscription,
        name=asked.name,
        address=asked.address,
        version=asked.version,
        flag=flag,
        order=sort,
        after=after,
        after_key=after_key,
        limit=asked.limit,
    )


def _following(page: ClientPage[Any]) -> str | None:
    return next_token(page.next_after, page.next_key) if page.next_key else None
