"""The error that ends a command: one sentence that says what to change, and an exit code for scripts."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import IO, Any

import click

__all__ = ["CliError", "Exit", "as_json_is_asked", "say"]

_JSON = "vela.json"


class Exit(IntEnum):
    """Exit codes, documented in docs/reference/command-line.md."""

    OK = 0
    FAILED = 1  # a server does not answer, something failed, or only a part was done
    USAGE = 2  # the command line is wrong
    NOTHING = 3  # something does not exist, or nothing arrived in time
    REFUSED = 4  # an act was refused, or the user did not agree: nothing was changed
    NOT_ALLOWED = 5  # not logged in, or not allowed
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class CliError(click.ClickException):
    """Ends the command. With `--json` it is a JSON object on standard error."""

    def __init__(
        self,
        text: str,
        exit_code: Exit = Exit.FAILED,
        *,
        code: str = "",
        as_json: bool | None = None,  # None: as in the current command's options
        **more: Any,
    ) -> None:
        super().__init__(text)
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it on the class; here each error sets its own
        self._body = {"error": text, "code": code or exit_code.name.title().replace("_", ""), **more}
        self._as_json = as_json_is_asked() if as_json is None else as_json

    def worded(self, text: str, exit_code: Exit, *, code: str, **more: Any) -> CliError:
        """Return the same error with another text, exit code and name, and with more members in its JSON."""
        known = {name: value for name, value in self._body.items() if name not in ("error", "code")}
        return CliError(text, exit_code, code=code, as_json=self._as_json, **(known | more))

    @property
    def code(self) -> str:
        """Return the error's name, for programs."""
        return str(self._body["code"])

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the error. click calls this before it exits."""
        if self._as_json:
            click.echo(json.dumps({**self._body, "exit_code": int(self.exit_code)}), err=True, file=file)
        else:
            from vela.cli.text.output import one_line

            click.echo(f"vela: {one_line(self.message)}", err=True, file=file)


def as_json_is_asked() -> bool:
    """Return whether the current command was given `--json`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_JSON))


def remember_json(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    """Remember `--json`. click calls this function for the option."""
    context.meta[_JSON] = value


def say(text: str) -> None:
    """Print a remark for users on standard error, unless `--json` is given."""
    if not as_json_is_asked():
        from vela.cli.text.output import one_line

        click.echo(one_line(text), err=True)
