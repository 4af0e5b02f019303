"""Send generated inputs to a started Vela, while two innocent clients exchange messages undisturbed.

python -m tests.fuzz.started --inputs 20000 [--seed N] [--face NAME …]
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import sys
import time
from pathlib import Path
from typing import Final

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()  # the admin API needs it

from tests.fuzz.furnished import furnish  # noqa: E402
from tests.fuzz.innocents import Innocents  # noqa: E402
from tests.fuzz.senders import SENDERS, send_many  # noqa: E402
from tests.support.vela import VelaProcess, started_vela  # noqa: E402

__all__ = ["LogEnds", "main", "run_started"]

MOST_GROWTH_BYTES: Final = 256 << 20  # inputs create topics and store messages
MOST_LATE_GROWTH_BYTES: Final = 32 << 20  # in the second half, when caches are full
_LOGS: Final = ("broker.log", "console.log", "supervisor.log")


class LogEnds:
    """Where the logs of a Vela ended, so that `check` reads only what Vela added later."""

    def __init__(self, vela: VelaProcess) -> None:
        files = (vela.data_dir / "log" / each for each in _LOGS)
        self._ends = {file: file.stat().st_size for file in files if file.exists()}

    def check(self) -> None:
        """Raise AssertionError with the first traceback that was added."""
        for file, end in self._ends.items():
            said = file.read_bytes()[end:].decode(errors="replace")
            at = said.find("Traceback")
            assert at < 0, f"{file.name}: {said[max(0, at - 500) :][:4000]}"


def run_started(vela: VelaProcess, name: str, *, inputs: int, seed: int) -> str:
    """Send `inputs` inputs to one face and return what happened. Raises AssertionError with what went wrong."""
    pids, logs, resident_bytes = vela.pids(), LogEnds(vela), [_resident_bytes(vela)]
    innocents = Innocents(vela.pulsar_url)
    innocents.start()
    began_s = time.perf_counter()
    try:
        answers = send_many(name, vela, inputs=inputs // 2, seed=f"{seed} first")
        resident_bytes.append(_resident_bytes(vela))
        answers += send_many(name, vela, inputs=inputs - inputs // 2, seed=f"{seed} second")
    finally:
        took_s = time.perf_counter() - began_s
        innocents.stop()
    assert vela.pids() == pids, f"a process ended: {pids} became {vela.pids()}"
    logs.check()
    resident_bytes.append(_resident_bytes(vela))
    before, half, after = resident_bytes
    growth = f"{half - before >> 20} and {after - half >> 20} MiB"
    assert after - before < MOST_GROWTH_BYTES, f"the broker grew by {growth}"
    assert after - half < MOST_LATE_GROWTH_BYTES, f"the broker keeps growing: by {growth}"
    return (
        f"{name:7} seed {seed}: {inputs:,} inputs, {inputs / took_s:,.0f}/s, {dict(answers.most_common())}; "
        f"innocent round trips {innocents.round_trips:,}, slowest {innocents.slowest_s * 1000:.0f} ms; "
        f"in each half the broker grew by {growth}"
    )


def _resident_bytes(vela: VelaProcess) -> int:
    status = Path(f"/proc/{vela.pids()['broker']}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def main() -> int:
    """Start a Vela and send inputs to each face. Return 1 if something went wrong."""
    parser = argparse.ArgumentParser(description="Send generated inputs to a started Vela.")
    parser.add_argument("--inputs", type=int, default=20_000, help="inputs for each face")
    parser.add_argument("--seed", type=int, default=None, help="repeats a run")
    parser.add_argument("--face", action="append", choices=list(SENDERS), help="only this face")
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    failed = False
    with started_vela() as vela:
        furnish(vela)
        for name in given.face or SENDERS:
            try:
                print(run_started(vela, name, inputs=given.inputs, seed=seed), flush=True)
            except AssertionError as error:
                failed = True
                print(f"{name}, seed {seed}: {error}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
