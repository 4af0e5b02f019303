"""The base class of the forms of acts."""

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

# A cure is a remedy that a diagnosis proposes. Its button posts `plan=address`, with the form's values in the query
# string.
_FILLED_IN: Final = "address"


class ActForm(forms.Form):
    """A form for the parameters of one kind of act."""

    kind: ClassVar[str]
    heading: ClassVar[StrOrPromise]
    lead: ClassVar[StrOrPromise]
    template: ClassVar[str]
    # Whether the act needs the order of messages. If so, it acts on one partition only.
    needs_order: ClassVar[bool] = False

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        topic: str = "",
        is_partitioned: bool = False,
        **options: Any,
    ) -> None:
        """`topic` is the full name of the topic that the act is about; `is_partitioned` says whether it has partitions.

        Both decide how the form reads a message id of three numbers. `options` are those of Django's forms.
        """
        super().__init__(data, **options)
        self._topic = topic
        self._is_partitioned = is_partitioned

    @classmethod
    def is_on_one_partition(cls) -> bool:
        """Return whether the act takes only one partition: it needs order, or the broker refuses several.

        For forms of acts on a subscription only.
        """
        return cls.needs_order or not KINDS[cls.kind].takes_partitions

    def message_id(self, text: str) -> str:
        """Read a message id of the topic, as `read_message_id` does."""
        return read_message_id(text, topic=self._topic, is_partitioned=self._is_partitioned)

    def parameters(self) -> dict[str, Any]:
        """Return the act's parameters. Call it for a valid form only."""
        return {}


def posted(request: HttpRequest) -> QueryDict:
    """Return the values of a form that was sent: in the query string by the button of a cure, else in the body."""
    return request.GET if request.POST.get("plan") == _FILLED_IN else request.POST
