"""Run commands of `pulsar-admin`, and read what they print."""

from __future__ import annotations

import base64
import json
import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

__all__ = ["Tool", "check"]


def check(found: object, wanted: object, what: str) -> None:
    """Fail with both values if they differ."""
    if found != wanted:
        raise AssertionError(f"{what}: {found!r}, not {wanted!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """What a command printed, and whether it succeeded."""

    succeeded: bool
    out: str
    err: str


class Tool:
    """The process that runs commands. A command is a line as a user would write it, without `pulsar-admin`."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def __call__(self, line: str) -> str:
        """Run a command, which must succeed, and return what it printed."""
        printed = self._run(line)
        if not printed.succeeded:
            raise AssertionError(f"{line}: {printed.out} {printed.err}")
        return printed.out.strip()

    def refused(self, line: str, reason: str) -> None:
        """Run a command, which must fail and print the reason."""
        printed = self._run(line)
        if printed.succeeded or reason not in printed.err:
            raise AssertionError(f"{line} was not refused with {reason!r}: {printed.out} {printed.err}")

    def value(self, line: str) -> Any:
        """Run a command, which must succeed, and return the JSON that it printed, or its text if that is not JSON."""
        text = self(line)
        try:
            return json.loads(text)
        except ValueError:
            return text

    def words(self, line: str) -> list[str]:
        """Run a command, which must succeed, and return the words that it printed, sorted, without punctuation."""
        return sorted(re.findall(r"[^\s,\[\]]+", self(line)))

    def _run(self, line: str) -> Printed:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(shlex.split(line)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise AssertionError(f"{line} ended the program")
        succeeded, out, err = answer.rstrip("\n").split(" ")
        return Printed(
            succeeded=succeeded == "true",
            out=base64.b64decode(out).decode(),
            err=base64.b64decode(err).decode(),
        )
