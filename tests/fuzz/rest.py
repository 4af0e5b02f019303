"""Let schemathesis test a started Vela with requests made from the descriptions of `/api/v1` and the admin REST API.

python -m tests.fuzz.rest --seconds 60 [--seed N] [--api NAME …]
"""

from __future__ import annotations

import argparse
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.fuzz.furnished import furnish
from tests.fuzz.started import LogEnds
from tests.support.vela import ADMIN_PASSWORD, VelaProcess, started_vela

__all__ = ["main"]

_SETTINGS: Final = Path(__file__).with_name("rest.toml")
_APIS: Final = ("console", "admin")
_CHECKS: Final = (
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "not_a_server_error",
)
_PATIENCE_S: Final = 60.0


def main() -> int:
    """Start a Vela and send requests to each API. Return 1 if an answer is not as described.

    Raises AssertionError if a process of Vela ended or logged a traceback.
    """
    parser = argparse.ArgumentParser(
        description="Send a started Vela requests that its API descriptions allow and forbid."
    )
    parser.add_argument("--seconds", type=int, default=60, help="for each API")
    parser.add_argument("--seed", type=int, default=None, help="repeats a run")
    parser.add_argument("--api", action="append", choices=_APIS, help="only this API")
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    is_wrong = False
    with started_vela() as vela:
        furnish(vela)
        pids, logs = vela.pids(), LogEnds(vela)
        for name in given.api or _APIS:
            is_wrong |= _run(vela, name, seconds=given.seconds, seed=seed) != 0
        assert vela.pids() == pids, f"a process ended: {pids} became {vela.pids()}"
        logs.check()
    return int(is_wrong)


def _run(vela: VelaProcess, name: str, *, seconds: int, seed: int) -> int:
    """Run schemathesis, which prints what it finds, and return its exit code."""
    if name == "console":
        target = [f"{vela.console_url}/api/v1/openapi.json", "--auth", f"admin:{ADMIN_PASSWORD}"]
    else:
        target = [f"{vela.http_url}/admin/v2/openapi.json"]
    options = {
        "--checks": ",".join(_CHECKS),
        "--phases": "coverage,fuzzing",
        "--max-time": str(seconds),
        "--seed": str(seed),
        "--generation-database": "none",
        "--warnings": "off",
    }
    with tempfile.TemporaryDirectory() as folder:  # schemathesis writes into its working folder
        return subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(_SETTINGS), "run", *target),
                *(part for option in options.items() for part in option),
                *("--continue-on-failure", "--no-color"),
            ],
            cwd=folder,
            timeout=seconds + _PATIENCE_S,
            check=False,
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
