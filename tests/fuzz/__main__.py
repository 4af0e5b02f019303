"""`make fuzz`: `python -m tests.fuzz --inputs 1000000 [--seed N] [--face NAME …]`. See `faces` for what a face is."""

from __future__ import annotations

import argparse
import os
import secrets
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()  # the admin API needs it

from tests.fuzz.faces import FACES  # noqa: E402
from tests.fuzz.runs import Finding, run_face  # noqa: E402

__all__ = ["main"]


def main() -> int:
    """Run the faces one after the other. Return 1 if there is a finding."""
    parser = argparse.ArgumentParser(
        description="Feed generated inputs to the broker's and the client's parsers."
    )
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs for each face")
    parser.add_argument("--seed", type=int, default=None, help="repeats a run")
    parser.add_argument(
        "--face", action="append", choices=[face.name for face in FACES], help="only this face"
    )
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    failed = False
    for face in FACES:
        if given.face and face.name not in given.face:
            continue
        try:
            print(run_face(face, inputs=given.inputs, seed=seed), flush=True)
        except Finding as finding:
            failed = True
            print(finding, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
