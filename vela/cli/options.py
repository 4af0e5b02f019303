"""Options that many commands take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from vela.cli.errors import remember_json

__all__ = ["json_option"]

C = TypeVar("C", bound=Callable[..., Any])


def json_option(command: C) -> C:
    """`--json`: JSON on standard output, and errors as JSON on standard error."""
    return click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=remember_json,
        help="Print JSON, a document on a line of its own.",
    )(command)
