"""The saved views that a user sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, cast

from django.contrib.auth.models import User
from django.db.models import Case, Q, QuerySet, When
from django.http import HttpRequest

from console.access import Rights
from console.models import SavedView
from console.saved_views.keeping import is_shared_with, sharing_of
from console.saved_views.lists import EVERYTHING_QUERY, SavedList, filters_in, list_at, list_of

__all__ = ["ListViews", "ViewRow", "address_of", "all_views", "user_id_of", "view_to_change", "views_of"]

_MOST: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRow:
    """One saved view."""

    id: int
    name: str
    path: str
    query: str
    list_word: str  # "" means no list has this path
    owner: str
    is_own: bool
    is_shared: bool
    is_default: bool
    may_share: bool
    may_delete: bool

    @property
    def address(self) -> str:
        """The address that opens the view."""
        return _address(self.path, self.query)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListViews:
    """The saved views on a list's page."""

    path: str
    query: str
    rows: Sequence[ViewRow]
    may_share: bool
    may_save: bool
    goes_to: str  # Address of the default view, or "" if the page does not redirect

    @property
    def everything(self) -> str:
        """The address of the list without filters."""
        return _address(self.path, "")


def address_of(view: SavedView) -> str:
    """Return the address that opens a view."""
    return _address(view.path, view.query)


def user_id_of(request: HttpRequest) -> int:
    """Return the id of the logged-in user."""
    return cast("User", request.user).pk


def views_of(request: HttpRequest, rights: Rights) -> ListViews | None:
    """Return the saved views of the requested list.

    Returns None if the page's filters cannot be saved, or if the request asks for only a part of the page.
    """
    saved_list = None if request.resolver_match is None else list_of(request.resolver_match)
    if saved_list is None or "part" in request.GET:
        return None
    found = SavedView.objects.filter(path=saved_list.path)
    rows = _rows(found, rights, user_id_of(request), saved_list)
    default = next((row for row in rows if row.is_own and row.is_default), None)
    return ListViews(
        path=saved_list.path,
        query=filters_in(saved_list, request.GET),
        rows=rows,
        may_share=not rights.is_read_only and bool(sharing_of(rights, saved_list)),
        may_save=not rights.is_read_only,
        goes_to=default.address if default is not None and not request.GET else "",
    )


def all_views(request: HttpRequest, rights: Rights) -> list[ViewRow]:
    """Return the views that the user sees, sorted by path and name."""
    return _rows(SavedView.objects.all(), rights, user_id_of(request))


def view_to_change(request: HttpRequest, rights: Rights, view_id: int) -> tuple[SavedView, ViewRow] | None:
    """Return a view and its row, or None if the view does not exist or the user may not see it."""
    found = SavedView.objects.filter(pk=view_id).select_related("user").first()
    if found is None:
        return None
    rows = _visible([found], rights, user_id_of(request), None)
    return (found, rows[0]) if rows else None


def _rows(
    found: QuerySet[SavedView], rights: Rights, user_id: int, saved_list: SavedList | None = None
) -> list[ViewRow]:
    seen = found.filter(Q(user_id=user_id) | ~Q(shared_in="")).select_related("user")
    own_first = seen.order_by(Case(When(user_id=user_id, then=0), default=1), "path", "name", "id")
    views = sorted(own_first[:_MOST], key=lambda view: (view.path, view.name, view.pk))
    return _visible(views, rights, user_id, saved_list)


def _visible(
    views: Iterable[SavedView], rights: Rights, user_id: int, saved_list: SavedList | None
) -> list[ViewRow]:
    rows: list[ViewRow] = []
    for view in views:
        is_own = view.user_id == user_id
        if not is_own and not is_shared_with(rights, view.shared_in):
            continue
        place = saved_list or list_at(view.path)
        rows.append(
            ViewRow(
                id=view.pk,
                name=view.name,
                path=view.path,
                query=view.query,
                list_word="" if place is None else place.word,
                owner=view.user.get_username(),
                is_own=is_own,
                is_shared=bool(view.shared_in),
                is_default=view.is_default,
                may_share=is_own and place is not None and bool(sharing_of(rights, place)),
                may_delete=is_own or rights.is_admin(),
            )
        )
    return rows


def _address(path: str, query: str) -> str:
    return f"{path}?{query or EVERYTHING_QUERY}"
