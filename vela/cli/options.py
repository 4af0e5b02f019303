"""Options that many commands take."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from vela.cli.errors import remember_json

__all__ = ["FiniteRange", "json_option"]

C = TypeVar("C", bound=Callable[..., Any])


class FiniteRange(click.FloatRange):
    """A range of finite floating-point numbers. click's FloatRange also accepts nan and inf."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


def json_option(command: C) -> C:
    """Give a command `--json`: JSON on standard output, and errors as JSON on standard error."""
    return click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=remember_json,
        help="Print JSON, one document on each line.",
    )(command)
