"""Save, rename, share and delete views, and choose default views."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.db import connection, transaction
from django.utils.translation import gettext as _

from console.access import Rights, Role
from console.models import SavedView
from console.saved_views.lists import MOST_QUERY, SavedList

__all__ = [
    "VIEWS_MOST",
    "ViewRefused",
    "delete_view",
    "is_shared_with",
    "rename_view",
    "save_view",
    "set_default",
    "share_view",
    "sharing_of",
]

VIEWS_MOST: Final = 200  # Limit for one user
_LOCK: Final = 0x5657


class ViewRefused(Exception):
    """The change is refused. The message says what the user can do."""


def save_view(
    user_id: int, saved_list: SavedList, *, name: str, query: str, shared_in: str, is_default: bool
) -> SavedView:
    """Save a list's filters under a name.

    If the user already has a view of this list with this name, that view is overwritten.
    Raises ViewRefused if the filters are too long or the user has too many views.
    """
    if len(query) > MOST_QUERY:
        raise ViewRefused(
            _("the filters are longer than {most} characters: shorten them").format(most=MOST_QUERY)
        )
    with _alone(user_id):
        own = SavedView.objects.filter(user_id=user_id)
        of_list = own.filter(path=saved_list.path)
        if not of_list.filter(name=name).exists() and own.count() >= VIEWS_MOST:
            raise ViewRefused(
                _("you already have {most} views, the maximum: delete one first").format(most=VIEWS_MOST)
            )
        if is_default:
            of_list.update(is_default=False)
        view, _created = SavedView.objects.update_or_create(
            user_id=user_id,
            path=saved_list.path,
            name=name,
            defaults={"query": query, "shared_in": shared_in, "is_default": is_default},
        )
    return view


def rename_view(view: SavedView, name: str) -> None:
    """Rename a view. Raises ViewRefused if another view of the same owner and list has this name."""
    with _alone(view.user_id):
        same = SavedView.objects.filter(user_id=view.user_id, path=view.path, name=name).exclude(pk=view.pk)
        if same.exists():
            raise ViewRefused(
                _("you already have a view {name!r} of this list: choose another name").format(name=name)
            )
        SavedView.objects.filter(pk=view.pk).update(name=name)


def set_default(view: SavedView, *, is_default: bool) -> None:
    """Choose a view as its owner's default for the list, or clear the default."""
    with _alone(view.user_id):
        SavedView.objects.filter(user_id=view.user_id, path=view.path).update(is_default=False)
        SavedView.objects.filter(pk=view.pk).update(is_default=is_default)


def share_view(view: SavedView, shared_in: str) -> None:
    """Share a view with the users who are operators in all namespaces of `shared_in`.

    If `shared_in` is empty, the view is no longer shared.
    """
    SavedView.objects.filter(pk=view.pk).update(shared_in=shared_in)


def delete_view(view: SavedView) -> None:
    """Delete a view."""
    SavedView.objects.filter(pk=view.pk).delete()


def sharing_of(rights: Rights, saved_list: SavedList) -> str:
    """Return the `shared_in` that a view of this list gets when a user with these rights shares it.

    The result has patterns of namespaces, separated by spaces. Other users of the view must be operators in all these
    namespaces, because filters can contain names and parts of messages. If the result is empty, the user cannot share
    the view.
    """
    if saved_list.namespace:
        return saved_list.namespace if (rights.role_in(saved_list.namespace) or 0) >= Role.OPERATOR else ""
    return " ".join(sorted(grant.pattern for grant in rights.grants if grant.role >= Role.OPERATOR))


def is_shared_with(rights: Rights, shared_in: str) -> bool:
    """Return whether a user with these rights may see a view that is shared in these namespaces."""
    patterns = shared_in.split()
    return bool(patterns) and all((rights.role_in(each) or 0) >= Role.OPERATOR for each in patterns)


@contextmanager
def _alone(user_id: int) -> Iterator[None]:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [_LOCK, user_id])
        yield
