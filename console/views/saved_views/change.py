"""Change and delete saved views. A saved view stores the filters of a list under a name."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from console.access import Rights, viewer
from console.saved_views.form import NameForm
from console.saved_views.found import view_to_change
from console.saved_views.keeping import (
    ViewRefused,
    delete_view,
    rename_view,
    set_default,
    share_view,
    sharing_of,
)
from console.saved_views.lists import list_at
from console.views.post_only import post_only
from console.views.saved_views.show import answer_views

__all__ = ["change_view"]

_OF_ITS_OWNER = ("rename", "default", "no-default", "share")
_OF_ADMINS_TOO = ("unshare", "delete")


@post_only("console:views")
@viewer
def change_view(request: HttpRequest, rights: Rights, view_id: int, change: str) -> HttpResponse:
    """Apply a change to a saved view."""
    found = view_to_change(request, rights, view_id)
    if found is None or change not in (*_OF_ITS_OWNER, *_OF_ADMINS_TOO):
        raise Http404(_("There is no such view, or it cannot be changed in this way."))
    view, row = found
    if not row.is_own and (change in _OF_ITS_OWNER or not row.may_delete):
        raise PermissionDenied(_("This view belongs to {owner}.").format(owner=row.owner))
    if change == "delete":
        delete_view(view)
    elif change == "rename":
        form = NameForm(request.POST)
        if not form.is_valid():
            return answer_views(request, rights, refusal=str(form.errors["name"][0]))
        try:
            rename_view(view, form.cleaned_data["name"])
        except ViewRefused as refused:
            return answer_views(request, rights, refusal=str(refused))
    elif change == "share":
        saved_list = list_at(view.path)
        shared_in = "" if saved_list is None else sharing_of(rights, saved_list)
        if not shared_in:
            raise PermissionDenied(_("You need the operator role to share a view."))
        share_view(view, shared_in)
    elif change == "unshare":
        share_view(view, "")
    else:
        set_default(view, is_default=change == "default")
    return redirect("console:views")
