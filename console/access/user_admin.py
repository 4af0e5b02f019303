"""The user pages of `/django-admin/`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.admin import UserAdmin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from console.access.changes import ChangeRefused, keeping_an_admin
from console.access.schedules import deleting_lost_schedules
from console.origin import origin_of

__all__ = ["KeepingUserAdmin"]


class KeepingUserAdmin(UserAdmin):  # type: ignore[type-arg]  # Generic only in the type stubs
    """Django's user pages. They refuse to remove the last admin who has rights on all namespaces."""

    def changeform_view(self, request: HttpRequest, *args: Any, **more: Any) -> HttpResponse:
        return self._kept(
            request, lambda: super(KeepingUserAdmin, self).changeform_view(request, *args, **more)
        )

    def changelist_view(self, request: HttpRequest, *args: Any, **more: Any) -> HttpResponse:
        return self._kept(
            request, lambda: super(KeepingUserAdmin, self).changelist_view(request, *args, **more)
        )

    def delete_view(self, request: HttpRequest, *args: Any, **more: Any) -> HttpResponse:
        return self._kept(request, lambda: super(KeepingUserAdmin, self).delete_view(request, *args, **more))

    def _kept(self, request: HttpRequest, view: Callable[[], HttpResponse]) -> HttpResponse:
        if request.method != "POST":
            return view()
        try:
            with (
                keeping_an_admin(),
                deleting_lost_schedules(who=request.user.get_username(), origin=origin_of(request)),
            ):
                return view()
        except ChangeRefused as refused:
            list(messages.get_messages(request))  # Reading deletes the messages about the refused change
            self.message_user(request, str(refused), messages.ERROR)
            return redirect(request.get_full_path())
