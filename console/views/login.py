"""Login, with Django's own users."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.views import LoginView

from console.blocks import frame

__all__ = ["Login"]


class Login(LoginView):
    """Ask for name and password. A user who is already logged in is redirected."""

    template_name = "console/pages/login.html"
    redirect_authenticated_user = True
    next_page = "console:home"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return Django's context and the frame's."""
        return {**super().get_context_data(**kwargs), **frame(self.request)}
