"""The pages of users in `/django-admin/`, which must not take the last admin away either."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.admin import UserAdmin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from console.access.changes import ChangeRefused, keeping_an_admin

__all__ = ["KeepingUserAdmin"]


class KeepingUserAdmin(UserAdmin):  # type: ignore[type-arg]  # it takes none when it runs
    """Django's pages, which undo a change after which nobody could give roles."""

    def changeform_view(self, request: HttpRequest, *args: Any, **more: Any) -> HttpResponse:
        """Change a user, unless nobody is admin then."""
        return self._kept(
            request, lambda: super(KeepingUserAdmin, self).changeform_view(request, *args, **more)
        )

    def changelist_view(self, request: HttpRequest, *args: Any, **more: Any) -> HttpResponse:
        """List users, or delete the marked ones, unless nobody is admin then."""
        return self._kept(
            request, lambda: super(KeepingUserAdmin, self).changelist_view(request, *args, **more)
        )

    def delete_view(self, request: HttpRequest, *args: Any, **more: Any) -> HttpResponse:
        """Delete a user, unless nobody is admin then."""
        return self._kept(request, lambda: super(KeepingUserAdmin, self).delete_view(request, *args, **more))

    def _kept(self, request: HttpRequest, view: Callable[[], HttpResponse]) -> HttpResponse:
        if request.method != "POST":
            return view()
        try:
            with keeping_an_admin():
                return view()
        except ChangeRefused as refused:
            list(messages.get_messages(request))  # reading drops them: they say that the change was made
            self.message_user(request, str(refused), messages.ERROR)
            return redirect(request.get_full_path())
