"""Show and save views. A saved view stores the filters of a list under a name."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from console.access import Rights, viewer
from console.blocks import page
from console.saved_views.form import SaveForm
from console.saved_views.found import address_of, all_views, user_id_of
from console.saved_views.keeping import ViewRefused, save_view, sharing_of
from console.saved_views.lists import filters_in, list_at

__all__ = ["answer_views", "saved_views"]


@require_http_methods(["GET", "HEAD", "POST"])
@viewer
def saved_views(request: HttpRequest, rights: Rights) -> HttpResponse:
    """Show the user's own views and the shared views, or save a view and open it."""
    if request.method != "POST":
        return answer_views(request, rights)
    form = SaveForm(request.POST)
    if not form.is_valid():
        return answer_views(request, rights, refusal=_first_error(form))
    given = form.cleaned_data
    saved_list = list_at(given["path"])
    if saved_list is None or (saved_list.place and not rights.may_see(saved_list.place)):
        raise Http404(_("There is no such list."))
    shared_in = sharing_of(rights, saved_list) if given["share"] else ""
    if given["share"] and not shared_in:
        raise PermissionDenied(_("You need the operator role to share a view."))
    try:
        view = save_view(
            user_id_of(request),
            saved_list,
            name=given["name"],
            query=filters_in(saved_list, QueryDict(given["query"])),
            shared_in=shared_in,
            is_default=given["default"],
        )
    except ViewRefused as refused:
        return answer_views(request, rights, refusal=str(refused))
    return redirect(address_of(view))


def answer_views(request: HttpRequest, rights: Rights, *, refusal: str = "") -> HttpResponse:
    """Show the page of saved views."""
    context: dict[str, Any] = {"views": all_views(request, rights), "refusal": refusal, "nav": "views"}
    return page(request, rights, "console/pages/views.html", context, status=422 if refusal else 200)


def _first_error(form: SaveForm) -> str:
    field, errors = next(iter(form.errors.items()))
    return f"{form.fields[field].label}: {errors[0]}"
