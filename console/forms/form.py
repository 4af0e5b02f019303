"""The base class of the forms of acts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = ["ActForm"]


class ActForm(forms.Form):
    """The form that describes one kind of act."""

    kind: ClassVar[str]
    heading: ClassVar[StrOrPromise]
    lead: ClassVar[StrOrPromise]
    template: ClassVar[str]
    needs_order: ClassVar[bool] = False  # needs the order of messages, so it acts on one partition only

    def parameters(self) -> dict[str, Any]:
        """Return the act's parameters. Only for a valid form."""
        return {}
