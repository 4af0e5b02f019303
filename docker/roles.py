"""The roles that a container can have, and the commands of each."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from config.environment import PROJECT_DIR
from config.run.errors import StartRefused
from config.run.options import Options
from config.run.processes import CELERY, child_environment, stages

__all__ = ["PIPELINE_ROLES", "ROLES", "ROLE_FILE", "SPARK_UI_PORTS", "commands", "environment_of", "remember"]

ROLES = ("all", "migrate", "broker", "console", "worker", "beat")
PIPELINE_ROLES = ("pipeline-worker", "spark-master", "spark-worker")  # target `pipeline` only
ROLE_FILE = Path("/tmp/vela-role")  # noqa: S108 - the container's own /tmp; the health check is another process
SPARK_MASTER_PORT = 7077
SPARK_UI_PORTS = {"spark-master": 8081, "spark-worker": 8082}  # 8080 is the broker's

# The children of `make run` that each role starts, so that containers and `make run` use the same commands.
_CHILDREN = {
    "broker": ["broker"],
    "console": ["console"],
    "beat": ["beat"],
}


def environment_of(role: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment a role's processes get.

    Raises StartRefused, in one sentence that names the setting, for an unknown role, a setting that cannot work, and
    a missing DATABASE_URL where the role does not start its own database.
    """
    if role not in ROLES and role not in PIPELINE_ROLES:
        raise StartRefused(f"There is no role {role!r}: the roles are {', '.join(ROLES + PIPELINE_ROLES)}")
    if role == "all" or role.startswith("spark-"):
        return dict(variables)
    url = variables.get("DATABASE_URL", "")
    if not url:
        raise StartRefused(
            f"DATABASE_URL is not set: the role {role} needs postgresql://user:password@host:port/name "
            "(only the role all starts its own PostgreSQL)"
        )
    return child_environment(Options.from_environment(variables), url)


def commands(role: str, environment: Mapping[str, str]) -> list[list[str]]:
    """Return a role's commands: one, which replaces the entrypoint, or several that start and stop together."""
    if role == "all":
        return [[sys.executable, "-m", "config.run"]]
    if role == "migrate":
        return [[sys.executable, "-m", "config.run.prepare"]]
    if role == "pipeline-worker":
        return [[*CELERY, "pipeline"]]
    if role.startswith("spark-"):
        return [_spark(role, environment)]
    options = Options.from_environment(environment)
    options.data_dir.mkdir(parents=True, exist_ok=True)
    if role == "worker":  # jobs of the pipeline have another role and another image
        return [[*CELERY, "tick"], [*CELERY, "work"]]
    children = {child.name: child for stage in stages(options, environment) for child in stage}
    return [list(children[name].command) for name in _CHILDREN[role]]


def _spark(role: str, environment: Mapping[str, str]) -> list[str]:
    host = socket.gethostname()
    spark_class = str(Path(sys.executable).with_name("spark-class"))
    ui = ["--webui-port", str(SPARK_UI_PORTS[role])]
    if role == "spark-master":
        command = [
            "org.apache.spark.deploy.master.Master",
            "--host",
            host,
            "--port",
            str(SPARK_MASTER_PORT),
            *ui,
        ]
    else:
        master = environment.get("VELA_SPARK_MASTER") or f"spark://spark-master:{SPARK_MASTER_PORT}"
        work = Path(environment.get("VELA_DATA_DIR") or PROJECT_DIR / ".vela") / "spark"
        command = [
            *("org.apache.spark.deploy.worker.Worker", "--host", host, *ui),
            *("--work-dir", str(work), master),
        ]
    return [spark_class, *command]


def remember(role: str) -> None:
    """Write the role to a file, where the health check, a separate process, finds it."""
    fresh = ROLE_FILE.with_name(f"{ROLE_FILE.name}.{os.getpid()}")
    fresh.write_text(role, encoding="ascii")
    fresh.replace(ROLE_FILE)
