"""The pages of the documentation."""

from __future__ import annotations

from functools import lru_cache

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render as render_template
from django.utils.cache import patch_vary_headers
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.addresses import help_url
from console.blocks import frame
from console.help.library import page_name, pages, pictures
from console.help.rendering import HelpPage, render

__all__ = ["help_page"]


@login_not_required
@require_safe
def help_page(request: HttpRequest, page: str = "") -> HttpResponse:
    """Show a page or a picture of the documentation."""
    if picture := pictures().get(page):
        return HttpResponse(picture.read_bytes(), content_type="image/png")
    path = pages().get(page)
    if path is None:
        raise Http404(_("The documentation has no page {page!r}.").format(page=page))
    shown = _rendered(page, path.stat().st_mtime_ns)
    folder = page.rpartition("/")[0]
    response = render_template(
        request,
        "console/pages/help.html",
        {**frame(request), "page": shown, "name": page, "folder": folder if folder in pages() else ""},
    )
    patch_vary_headers(response, ["Cookie"])
    return response


@lru_cache(maxsize=200)
def _rendered(page: str, _changed_ns: int) -> HelpPage:
    path = pages()[page]
    file = f"{page}/README.md" if path.stem == "README" else f"{page}.md"
    return render(path.read_text(encoding="utf-8"), file=file.lstrip("/"), address_of=_address_of)


def _address_of(file: str) -> str:
    if file in pictures():
        return help_url(file)
    name = page_name(file)
    return help_url(name) if file.endswith(".md") and name in pages() else ""
