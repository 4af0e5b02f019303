"""The form of one pipeline job.

The pipeline runs Spark jobs on topics. An act is a change that the broker makes on request, such as a new schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy

from broker.acts.requests import ActRefused, full_name
from pipeline.errors import InvalidOption
from pipeline.jobs.catalogue import Job

__all__ = ["JobForm"]

_MOST_MINUTES = 31 * 24 * 60


class JobForm(forms.Form):
    """The form that runs or schedules one job."""

    topic = forms.CharField(max_length=1024, error_messages={"required": gettext_lazy("Name the topic.")})
    every_minutes = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=_MOST_MINUTES,
        error_messages={
            "invalid": gettext_lazy("Give a number of minutes, or leave the field empty."),
            "min_value": gettext_lazy("At least 1 minute."),
            "max_value": gettext_lazy("At most 31 days."),
        },
    )

    def __init__(self, job: Job, given: Mapping[str, Any] | None, **more: Any) -> None:
        super().__init__(given, **more)
        self._job = job
        for option in job.options:
            self.fields[f"option_{option.name}"] = forms.CharField(
                required=False, max_length=4096, help_text=option.doc
            )

    @property
    def options(self) -> list[tuple[Any, Any]]:
        """The job's options, each with its field."""
        return [(option, self[f"option_{option.name}"]) for option in self._job.options]

    def clean_topic(self) -> str:
        try:
            return full_name("run_job", self.cleaned_data["topic"].strip())
        except ActRefused as refused:
            raise ValidationError(refused.text) from None

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        for option in self._job.options:
            field = f"option_{option.name}"
            try:
                option.checked(self._given(given))
            except InvalidOption as error:
                if field not in self.errors:
                    self.add_error(field, str(error))
        return given

    @property
    def act(self) -> tuple[str, dict[str, Any]]:
        """The kind and the parameters of the act that runs or schedules the job. The form must be valid."""
        parameters = {"job": self._job.name, "options": self._given(self.cleaned_data)}
        every_minutes = self.cleaned_data["every_minutes"]
        if every_minutes:
            return "schedule_job", {**parameters, "every_minutes": every_minutes}
        return "run_job", parameters

    def _given(self, cleaned: Mapping[str, Any]) -> dict[str, str]:
        texts = {option.name: cleaned.get(f"option_{option.name}") for option in self._job.options}
        return {name: text for name, text in texts.items() if text}
