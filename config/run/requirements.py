"""Compile requirements/*.txt from pyproject.toml, with versions and hashes of all packages, for every platform."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from config.environment import PROJECT_DIR

LISTS = {
    # With `offload`, broker and console can read offloaded ledgers. With `otel`, VELA_OTEL=1 needs no other package.
    "server": ["--extra", "server", "--extra", "offload", "--extra", "otel"],
    "demo": ["--group", "demo"],
    "pipeline": ["--extra", "pipeline"],
    "dev": ["--all-extras", "--group", "dev"],
}


def main(arguments: list[str]) -> int:
    """Compile each list with uv, which gets these arguments too, such as --upgrade. Return its exit code."""
    uv = str(Path(sys.executable).with_name("uv"))
    for name, wanted in LISTS.items():
        command = [uv, "pip", "compile", "pyproject.toml", "--quiet", "--universal", "--generate-hashes"]
        target = PROJECT_DIR / "requirements" / f"{name}.txt"
        options = ["--no-header", "--no-annotate", "--python-version", "3.11", "--output-file", str(target)]
        done = subprocess.run([*command, *options, *wanted, *arguments], cwd=PROJECT_DIR, check=False)
        if done.returncode != 0:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
