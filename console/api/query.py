"""What an address asks for after its `?`. Raises Problem, naming the value and what it takes."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import HttpRequest

from console.api.problems import Problem

__all__ = ["choice", "flag", "number", "text"]


def number(request: HttpRequest, name: str, *, default: int, least: int, most: int) -> int:
    """A whole number."""
    given = request.GET.get(name, "")
    if not given:
        return default
    if not (given.isascii() and given.isdecimal()) or len(given) > 18 or not least <= int(given) <= most:
        raise Problem(400, "BadQuery", f"{name} is {given!r}: it takes a number from {least} to {most}")
    return int(given)


def choice(request: HttpRequest, name: str, among: Sequence[str]) -> str:
    """One of these; the first where nothing is said."""
    given = request.GET.get(name) or among[0]
    if given not in among:
        raise Problem(400, "BadQuery", f"{name} is {given!r}: use {', '.join(among[:-1])} or {among[-1]}")
    return given


def flag(request: HttpRequest, name: str) -> bool:
    """`true` or `false`; false where nothing is said."""
    return choice(request, name, ("false", "true")) == "true"


def text(request: HttpRequest, name: str) -> str:
    """Text that PostgreSQL can compare with; empty where nothing is said."""
    given = request.GET.get(name, "").strip()
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise Problem(400, "BadQuery", f"{name} is not UTF-8") from error
    if "\0" in given:
        raise Problem(400, "BadQuery", f"{name} holds a NUL")
    return given
