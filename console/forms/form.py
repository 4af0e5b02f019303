"""The base class of forms for acts. An act is a change that the broker makes on request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from django import forms
from django.http import HttpRequest, QueryDict

from broker.acts.requests import KINDS
from console.forms.fields import read_message_id

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = ["ActForm", "posted"]

# With `plan=address` in the body, the form's values are in the query string.
_FILLED_IN: Final = "address"


class ActForm(forms.Form):
    """A form for the parameters of one kind of act."""

    kind: ClassVar[str]
    heading: ClassVar[StrOrPromise]
    lead: ClassVar[StrOrPromise]
    template: ClassVar[str]
    needs_order: ClassVar[bool] = False

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        topic: str = "",
        is_partitioned: bool = False,
        **options: Any,
    ) -> None:
        """`topic` is the full name of the form's topic."""
        super().__init__(data, **options)
        self._topic = topic
        self._is_partitioned = is_partitioned

    @classmethod
    def is_on_one_partition(cls) -> bool:
        """Return whether the act works on only one partition.

        Call this method only if the act is on a subscription.
        """
        return cls.needs_order or not KINDS[cls.kind].takes_partitions

    def message_id(self, text: str) -> str:
        """Parse a message id of the form's topic."""
        return read_message_id(text, topic=self._topic, is_partitioned=self._is_partitioned)

    def parameters(self) -> dict[str, Any]:
        """Return the act's parameters. The form must be valid."""
        return {}


def posted(request: HttpRequest) -> QueryDict:
    """Return the form's values from the query string or from the body."""
    return request.GET if request.POST.get("plan") == _FILLED_IN else request.POST
