"""The Go program that loads each server (main.go): how it is built and run."""

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
        """Build it into `folder`. Raises ProgramFailed without Go or its modules."""
        self._folder = folder
        self._program = folder / "generator"
        output_of(["go", "build", "-o", str(self._program), "."], SOURCE)

    def run(self, server: Server, work: str, topic: str, **options: float | str) -> Mapping[str, float]:
        """Do one kind of work; its figures. Raises ProgramFailed if it fails: it has printed why."""
        named = [f"-{name.replace('_', '-')}={value}" for name, value in options.items()]
        where = [f"-system={server.protocol}", f"-url={server.url}", f"-topic={topic}", f"-work={work}"]
        figures: Mapping[str, float] = json.loads(
            output_of([*(server.loader or [str(self._program)]), *where, *named], self._folder)
        )
        return figures
