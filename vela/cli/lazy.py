"""A group whose commands are imported when they run, so that `vela --help` imports none of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from vela.cli.errors import CliError, Exit

__all__ = ["Lazy", "LazyGroup", "OrderedGroup"]

_HAS_JSON = "vela.has_json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lazy:
    """A command before it is imported."""

    name: str
    where: str  # module:attribute
    summary: str  # the first sentence of its help
    section: str  # the heading above it in `vela --help`


class OrderedGroup(click.Group):
    """A group that lists its commands in the order of their definition."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class LazyGroup(click.Group):
    """The root command. It also ends cleanly if its output is closed, and if it is interrupted.

    If `--json` is anywhere on the command line, usage errors are printed as JSON, because click may have failed before
    it read that option.
    """

    def __init__(self, *args: Any, lazy: Iterable[Lazy], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = {each.name: each for each in lazy}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        known = self.lazy.get(cmd_name)
        if known is None:
            return None
        module, _, attribute = known.where.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(name) for name in self.lazy)
        for section in dict.fromkeys(each.section for each in self.lazy.values()):
            with formatter.section(section):
                formatter.write_dl(
                    [
                        (each.name.ljust(width), each.summary)
                        for each in self.lazy.values()
                        if each.section == section
                    ]
                )

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        has_json = _has_json(args)
        with _as_json(has_json):
            context = super().make_context(info_name, args, parent, **extra)
        context.meta[_HAS_JSON] = has_json
        return context

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _as_json(ctx.meta[_HAS_JSON]):
                result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Python flushes standard output again when it exits, which would fail.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(Exit.BROKEN_PIPE)
        except KeyboardInterrupt:
            sys.exit(Exit.INTERRUPTED)
        except UnicodeEncodeError as error:
            if error.encoding != "utf-8":  # the output has another encoding, and the error says enough
                raise
            near = error.object[max(0, error.start - 20) : error.end + 20]
            raise CliError(
                f"{near!r} is not UTF-8: only messages and file names may contain other bytes",
                Exit.USAGE,
                code="NotUtf8",
                as_json=ctx.meta[_HAS_JSON],
            ) from error
        return result


def _has_json(args: Sequence[str]) -> bool:
    words = list(args)
    return "--json" in (words[: words.index("--")] if "--" in words else words)


@contextmanager
def _as_json(is_asked: bool) -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        if is_asked:
            text = error.format_message()
            if isinstance(error, click.NoSuchOption) and error.option_name == "--json":
                text = f"{text} Write --json after the command."
            raise CliError(text, Exit.USAGE, as_json=True) from error
        raise
