"""The entry point of `python -m vela.cli` and of the installed command `vela`."""

from __future__ import annotations

import io
import json
import os
import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its code."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open as long as the process runs
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)  # otherwise a connection would get descriptor 0
    if sys.stdout is None:
        _fail("standard output is closed")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Even UTF-8 needs this: it cannot write half of a character (a lone surrogate), which JSON can contain.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        from vela.cli.root import cli

        cli(prog_name="vela")
    except KeyboardInterrupt:  # Ctrl-C during the imports
        sys.exit(130)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _fail(f"{place}{error.strerror or error}")
    except Exception as error:
        _fail(f"{type(error).__name__}: {error}")


def _fail(text: str) -> NoReturn:
    """Write one line to standard error, as JSON with `--json`, and exit with code 1."""
    sentence = " ".join(text.split())
    if "--json" in sys.argv[1:]:
        sentence = json.dumps({"error": sentence, "code": "Failed", "exit_code": 1})
    else:
        sentence = f"vela: {sentence}"
    sys.stderr.write(f"{sentence}\n")
    # Python flushes standard output at exit. If the disk behind it is full, for example, that would fail again.
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)


if __name__ == "__main__":
    main()
