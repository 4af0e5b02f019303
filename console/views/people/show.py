"""The list of users, and the page of one user."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_safe

from console.access import Rights, Role, admin_everywhere_only
from console.blocks import Source, answer, page
from console.queries.people.users import user_named, users_page

__all__ = ["show_user", "user", "users"]

_DONE = {
    "created": gettext_noop("The user is created."),
    "without_role": gettext_noop(
        "The user is created. Give the user a role: without one, the console shows nothing."
    ),
    "password": gettext_noop("The password has changed. All sessions of this user have ended."),
    "role": gettext_noop("The roles have changed."),
    "factor": gettext_noop("The second factor is removed: the user logs in with the password alone."),
    "active": gettext_noop("The user can log in."),
    "inactive": gettext_noop("The user cannot log in any more, and all sessions have ended."),
}


@require_safe
@admin_everywhere_only
def users(request: HttpRequest, rights: Rights) -> HttpResponse:
    """List the users."""
    search, after = request.GET.get("q", "").strip(), request.GET.get("after", "")
    rows, next_after = users_page(search, after)
    next_query = request.GET.copy()
    next_query.pop("part", None)
    next_query["after"] = next_after
    source = Source(
        name="rows",
        template="console/parts/users/rows.html",
        live=(),
        context=lambda: {
            "rows": rows,
            "search": search,
            "after": after,
            "next_query": next_query.urlencode() if next_after else "",
        },
    )
    return answer(request, rights, "console/pages/users.html", [source], {"search": search, "nav": "users"})


@require_safe
@admin_everywhere_only
def user(request: HttpRequest, rights: Rights, name: str) -> HttpResponse:
    """Show one user."""
    return show_user(request, rights, name, done=_(_DONE.get(request.GET.get("done", ""), "")))


def show_user(
    request: HttpRequest,
    rights: Rights,
    name: str,
    *,
    done: str = "",
    refusal: str = "",
    password: str = "",
    given: dict[str, str] | None = None,
    status: int = 200,
) -> HttpResponse:
    """Render the page of one user, with the outcome of a change.

    `password` is a new password to show once. Raises Http404 for an unknown user.
    """
    row = user_named(name)
    if row is None:
        raise Http404(_("There is no user {name}.").format(name=name))
    context = {
        "row": row,
        "done": done,
        "refusal": refusal,
        "password": password,
        "given": given or {},
        "roles": [role.word for role in Role],
        "nav": "users",
    }
    return page(request, rights, "console/pages/user.html", context, status=status)
