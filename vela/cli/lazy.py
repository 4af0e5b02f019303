"""A group whose commands are imported when they are run: `vela --help` costs no more than click."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from vela.cli.errors import Exit

__all__ = ["Lazy", "LazyGroup", "OrderedGroup"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lazy:
    """A command before it is imported."""

    name: str
    where: str  # module:attribute
    summary: str  # the first sentence of its help
    section: str  # heading it stands under


class OrderedGroup(click.Group):
    """Its commands are listed in the order in which they are written."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class LazyGroup(click.Group):
    """The root. It also ends cleanly when nobody reads its output any more, and when it is interrupted."""

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

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Python flushes once more at its end, and would complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(Exit.BROKEN_PIPE)
        except KeyboardInterrupt:
            sys.exit(Exit.INTERRUPTED)
        return result
