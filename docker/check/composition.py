"""Check compose.yaml with docker-compose: it is valid with and without the profile, and refused without a secret."""

from __future__ import annotations

import os
from pathlib import Path

from docker.check.programs import CheckFailed, capture, run

__all__ = ["SECRETS", "check_composition"]

SECRETS = ("VELA_DB_PASSWORD", "VELA_SECRET_KEY", "VELA_ADMIN_PASSWORD")
SERVICES = {"postgres", "migrate", "broker", "console", "worker", "beat"}
PIPELINE_SERVICES = {"pipeline-worker", "spark-master", "spark-worker"}


def check_composition(folder: Path) -> str:
    """Raise CheckFailed if docker-compose does not read compose.yaml as expected."""
    empty = folder / "no.env"  # instead of a docker/.env that may be in the checkout
    empty.touch()
    compose = ["docker-compose", "--env-file", str(empty), "-f", "docker/compose.yaml"]
    for profile in ([], ["--profile", "pipeline"]):
        run([*compose, *profile, "config", "--quiet"], env=_environment())
    found = set(run([*compose, "--profile", "pipeline", "config", "--services"], env=_environment()).split())
    if found != SERVICES | PIPELINE_SERVICES:
        raise CheckFailed(f"compose.yaml has the services {sorted(found)}")
    for secret in SECRETS:
        for value in (None, ""):
            done = capture([*compose, "config", "--quiet"], env=_environment(**{secret: value}))
            if done.returncode == 0:
                raise CheckFailed(
                    f"compose.yaml is accepted while {secret} is {'empty' if value == '' else 'unset'}"
                )
    return f"valid with and without the profile, {len(found)} services, refused without each of {', '.join(SECRETS)}"


def _environment(**changed: str | None) -> dict[str, str]:
    """Return the machine's environment without Vela's settings, plus three secrets and changes (None = unset)."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("VELA_", "COMPOSE_"))
    }
    secrets: dict[str, str | None] = {**dict.fromkeys(SECRETS, "word"), **changed}
    return inherited | {name: value for name, value in secrets.items() if value is not None}
