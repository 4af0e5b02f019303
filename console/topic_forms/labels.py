"""Read and write lines of `name = value`."""

from __future__ import annotations

import json
from collections.abc import Mapping

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from console.marks import is_plain

__all__ = ["as_lines", "read_lines"]


def read_lines(text: str) -> dict[str, str]:
    """Read lines of `name = value`, or a JSON object whose values are text.

    Raises ValidationError for any other text, and for two lines with the same name.
    """
    if text.lstrip().startswith("{"):
        return _read_object(text)
    read: dict[str, str] = {}
    for line in text.splitlines():
        name, separator, value = (part.strip() for part in line.partition("="))
        if not separator and not name:
            continue
        if not separator or not name:
            raise ValidationError(_("Write “{line}” as name = value.").format(line=line.strip()))
        if name in read:
            raise ValidationError(_("{name} is given twice.").format(name=name))
        read[name] = value
    return read


def as_lines(labels: Mapping[str, str]) -> str:
    """Write labels as lines. If lines cannot represent the labels exactly, write JSON instead."""
    lines = "\n".join(f"{name} = {value}" for name, value in sorted(labels.items()))
    try:
        is_the_same = is_plain(lines) and "\r" not in lines and read_lines(lines) == dict(labels)
    except ValidationError:
        is_the_same = False
    return lines if is_the_same else json.dumps(dict(labels), indent=1, sort_keys=True)


def _read_object(text: str) -> dict[str, str]:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValidationError(
            _("This begins like a JSON object, but is not one: {error}").format(error=error)
        ) from None
    if not isinstance(read, dict) or not all(isinstance(value, str) for value in read.values()):
        raise ValidationError(_("Every value of the JSON object must be text."))
    return read
