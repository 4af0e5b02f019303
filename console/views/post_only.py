"""A decorator for views that receive forms."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Concatenate, ParamSpec

from django.http import HttpRequest, HttpResponseBase, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.urls import reverse

__all__ = ["post_only"]

P = ParamSpec("P")


def post_only(
    page: str, *names: str
) -> Callable[
    [Callable[Concatenate[HttpRequest, P], HttpResponseBase]],
    Callable[Concatenate[HttpRequest, P], HttpResponseBase],
]:
    """Let POST through to the view, and redirect GET to the page with the form.

    If the user is not logged in, a POST leads to the login page. After the login, the browser requests the same URL
    with GET. `names` are the view's arguments that the page's URL needs.
    """

    def decorate(
        view: Callable[Concatenate[HttpRequest, P], HttpResponseBase],
    ) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
        def answered(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if request.method == "POST":
                return view(request, *args, **kwargs)
            if request.method not in ("GET", "HEAD"):
                return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
            query = request.META.get("QUERY_STRING", "")
            address = reverse(page, args=[kwargs[name] for name in names])
            return redirect(f"{address}?{query}" if query else address)

        return update_wrapper(answered, view)

    return decorate
