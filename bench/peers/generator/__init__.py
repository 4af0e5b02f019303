"""Build and run the Go program that loads each server (main.go)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.peers.programs import output_of
from bench.peers.server import Server

__all__ = ["SOURCE", "Generator"]

SOURCE: Final = Path(__file__).parent


class Generator:
    """The built program."""

    def __init__(self, folder: Path) -> None:
        """Build the program into `folder`. Raises ProgramFailed if Go or a module is missing."""
        self._folder = folder
        self._program = folder / "generator"
        output_of(["go", "build", "-o", str(self._program), "."], SOURCE)

    def run(self, server: Server, work: str, topic: str, **options: float | str) -> Mapping[str, float]:
        """Do one kind of work and return its figures. Raises ProgramFailed if the program, which prints why, fails."""
        named = [f"-{name.replace('_', '-')}={value}" for name, value in options.items()]
        where = [f"-system={server.protocol}", f"-url={server.url}", f"-topic={topic}", f"-work={work}"]
        figures: Mapping[str, float] = json.loads(
            output_of([*(server.loader or [str(self._program)]), *where, *named], self._folder)
        )
        return figures
