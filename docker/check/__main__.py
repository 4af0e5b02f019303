"""Run the checks: `python -m docker.check [lint] [compose] [server] [pipeline]`, all of them if none is named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from docker.check.composition import PIPELINE_SERVICES, SERVICES, check_composition
from docker.check.container import network
from docker.check.image import Builder
from docker.check.lint import lint_dockerfile
from docker.check.pipeline_roles import check_pipeline_roles
from docker.check.programs import CheckFailed, need, say
from docker.check.server_roles import check_refusals, check_role_all, check_separate_roles, check_shape

STEPS = ("lint", "compose", "server", "pipeline")


def main(arguments: Sequence[str]) -> int:
    """Run the named checks. Return 0 if all pass, 1 after the first failure, 2 for a wrong argument."""
    steps = set(arguments or STEPS)
    if not steps <= set(STEPS):
        sys.stderr.write(f"docker-check takes any of: {' '.join(STEPS)}\n")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # else an interrupted build leaves gigabytes behind
    try:
        with tempfile.TemporaryDirectory(prefix="vela-docker-check-") as folder:
            _check(steps, Path(folder))
    except (CheckFailed, subprocess.TimeoutExpired) as failed:
        sys.stderr.write(f"docker-check: {failed}\n")
        return 1
    say(f"{', '.join(step for step in STEPS if step in steps)}: all as it should be")
    return 0


def _check(steps: set[str], folder: Path) -> None:
    if "lint" in steps:
        say(f"hadolint: {lint_dockerfile(folder)}")
    if "compose" in steps:
        need({"docker-compose": "docker-compose"})
        say(f"compose: {check_composition(folder)}")
    if steps & {"server", "pipeline"}:
        if os.geteuid() != 0:
            raise CheckFailed(
                "Building without an engine and starting the roles takes root: sudo make docker-check"
            )
        need(
            {
                "buildah": "buildah",
                "debootstrap": "debootstrap",
                "ip": "iproute2",
                "nsenter": "util-linux",
            }
        )
        folder.chmod(0o755)  # the roles' user must reach its data below it
        _check_image(steps, folder)


def _check_image(steps: set[str], folder: Path) -> None:
    (folder / "build").mkdir()
    with closing(Builder(folder / "build")) as builder:
        builder.make_base()
        for target in ("server", "pipeline"):
            if target not in steps:
                continue
            image = builder.build(target)
            check_shape(image)
            data = folder / target
            data.mkdir()
            with network(data, tuple(SERVICES | PIPELINE_SERVICES)) as net:
                if target == "pipeline":
                    check_pipeline_roles(image, net, data)
                    continue
                check_refusals(image, net, data)
                check_role_all(image, net, data)
                check_separate_roles(image, net, data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
