"""The list of namespaces."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from ninja import Query, Router
from ninja.decorators import decorate_view
from pydantic import Field

from console.api.access import AuthorizedRequest
from console.api.answers import Namespaces
from console.api.app import read
from console.api.conditional import with_etag
from console.api.pages import next_token, read_token
from console.api.parameters import Page, SearchText
from console.queries.topics.namespaces import NamespacesAsked
from console.queries.topics.namespaces import namespaces as read_namespaces

__all__ = ["router"]

router = Router()


class ListedNamespaces(Page):
    """Filters for namespaces."""

    q: Annotated[SearchText, Field(description="part of tenant/namespace")] = ""


@read(router, "/namespaces", response=Namespaces)
@decorate_view(with_etag)
def namespaces(request: AuthorizedRequest, asked: Query[ListedNamespaces]) -> dict[str, Any]:
    """List namespaces with totals over their topics."""
    (after,) = read_token(asked.after, "")
    page = read_namespaces(
        NamespacesAsked(search=asked.q, after=after, limit=asked.limit), request.auth.scope
    )
    return {
        "namespaces": [
            asdict(numbers)
            | {
                "name": row.full_name,
                "protected": row.is_protected,
                "second_person": row.needs_second_person,
                "created_at": row.created_at,
            }
            for row, numbers in page.rows
        ],
        "next_after": None if page.next_name is None else next_token(page.next_name),
    }
