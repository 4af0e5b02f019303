"""The base class of the forms of acts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from django import forms
from django.http import HttpRequest, QueryDict

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = ["ActForm", "posted"]

_FILLED_IN: Final = "address"  # where a cure's button has the form's values; the value of its name `plan`


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


def posted(request: HttpRequest) -> QueryDict:
    """Return the values of a form that was sent: by its own fields, or by the button of a cure, in the address."""
    return request.GET if request.POST.get("plan") == _FILLED_IN else request.POST
