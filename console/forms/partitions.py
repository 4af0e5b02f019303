"""The form that chooses a topic's partitions for an act, such as a reset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext as _

__all__ = ["PartitionsForm"]

_MOST_BOXES: Final = 64


class PartitionsForm(forms.Form):
    """Checkboxes for the partitions, or a text field if there are more than 64 partitions."""

    def __init__(self, request: HttpRequest, partitions: Sequence[int]) -> None:
        super().__init__(request.POST if request.method == "POST" else None)
        self.has_boxes = len(partitions) <= _MOST_BOXES
        self._all = [str(partition) for partition in partitions]
        if self.has_boxes:
            self.fields["partition"] = forms.MultipleChoiceField(
                choices=[(each, each) for each in self._all],
                initial=[each for each in request.GET.getlist("partition") if each in self._all] or self._all,
                error_messages={
                    "required": _("Tick at least one partition."),
                    "invalid_choice": _("Tick partitions that have this subscription."),
                },
            )
        else:
            self.fields["partitions"] = forms.CharField(
                required=False, max_length=4000, initial=request.GET.get("partitions", "")
            )

    def boxes(self) -> list[tuple[str, bool]]:
        """Return each partition and whether it is ticked."""
        ticked = self["partition"].value() or []
        return [(each, each in ticked) for each in self._all]

    def parameters(self) -> dict[str, Any]:
        """Return the act's `partitions` parameter, or {} for all partitions. The form must be valid."""
        if not self.has_boxes:
            text = self.cleaned_data["partitions"].strip()
            return {"partitions": text} if text else {}
        ticked = self.cleaned_data["partition"]
        return {} if len(ticked) == len(self._all) else {"partitions": ",".join(ticked)}
