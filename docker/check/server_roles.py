"""Check every role of the target `server` in a container of the image."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from docker.check.container import Container, Network
from docker.check.image import Image
from docker.check.programs import CheckFailed, say, until

__all__ = ["check_refusals", "check_role_all", "check_separate_roles", "check_shape", "database"]

DOORS = (8000, 8080, 6650)
EMBEDDED_POSTGRES = 54329
_COMPILERS = ("cc", "gcc", "g++", "c++", "clang", "make", "ld", "as")

# A program that runs only the embedded server in a container. In the check it takes the place of compose's
# `postgres`.
_DATABASE = """
import signal
from pathlib import Path
from config.run.postgres.database import embedded_server, write_private
server = embedded_server(Path("/data"), 5432)
server.create()
server.start()
signal.signal(signal.SIGTERM, lambda *_: server.process.send_signal(signal.SIGINT))
server.wait_ready()
write_private(Path("/data/database-url"), server.url)
raise SystemExit(server.process.wait())
"""


def check_shape(image: Image) -> None:
    """Check the image's description and files without starting it. Raises CheckFailed."""
    facts = {
        "runs as root": image.user.partition(":")[0] in ("", "0", "root"),
        "has no volume /data": image.volumes != ["/data"],
        "exposes other ports than 8000 8080 6650": set(image.ports) != {f"{port}/tcp" for port in DOORS},
        "has no entrypoint in exec form": image.entrypoint[:1] in ([], ["/bin/sh"]),
        "has no collected static files": not (image.root / "app/staticfiles/staticfiles.json").is_file(),
        "carries an installer": (image.root / "opt/vela/bin/pip").exists(),
        "carries a file of the checkout that it should not": (image.root / "app/tests").exists(),
        **{
            f"carries the compiler {name}": any(
                (image.root / folder / name).exists() for folder in ("usr/bin", "bin")
            )
            for name in _COMPILERS
        },
    }
    wrong = [complaint for complaint, holds in facts.items() if holds]
    if wrong:
        raise CheckFailed(f"{image.name} {', '.join(wrong)}")
    say(f"{image.name}: {image.size_bytes / 1e6:.0f} MB of files with the base, user {image.user}")


def check_role_all(image: Image, net: Network, folder: Path) -> None:
    """Run everything in one container with its own PostgreSQL, twice on the same data."""
    data: Path | None = None
    for name in ("all-first", "all-again"):
        with Container(
            image,
            net,
            name=name,
            folder=folder,
            arguments=list(image.command),
            data=data,
            environment={"VELA_AUTHENTICATION": "none"},
        ) as container:
            up_s = container.wait_healthy()
            _check_doors(net, container.name)
            stop_s = container.stop()
            data = container.data
        say(f"role all ({name}): healthy after {up_s:.1f} s, stopped in {stop_s:.1f} s")


def _check_doors(net: Network, name: str) -> None:
    closed = [port for port in DOORS if not net.reaches(port)]
    if closed or net.reaches(EMBEDDED_POSTGRES):
        raise CheckFailed(
            f"{name}: ports {closed} are closed to others, or the embedded PostgreSQL's is open"
        )


def check_refusals(image: Image, net: Network, folder: Path) -> None:
    """Check that a container which cannot start says why in one sentence and ends."""
    cases = {
        "no-database": (["broker"], {}, "DATABASE_URL is not set"),
        "no-role": (["brokr"], {}, "There is no role 'brokr'"),
        "bad-setting": (
            ["console"],
            {"DATABASE_URL": "postgresql://v:p@postgres/v", "VELA_TICK_MS": "soon"},
            "VELA_TICK_MS",
        ),
    }
    for name, (arguments, environment, sentence) in cases.items():
        with Container(
            image, net, name=name, folder=folder, arguments=arguments, environment=environment
        ) as container:
            code = container.wait()
            said = container.tail()
        if code != 2 or sentence not in said or len(said.splitlines()) != 1:
            raise CheckFailed(
                f"{name}: exit code {code} and not the one sentence about {sentence!r}:\n{said}"
            )
    say(f"refused with one sentence each: {', '.join(cases)}")


@contextmanager
def database(image: Image, net: Network, folder: Path) -> Iterator[tuple[Container, dict[str, str]]]:
    """Start PostgreSQL from the image's own package, and yield its container and the environment of its clients."""
    start = ["python", "-c", _DATABASE]
    with Container(image, net, name="postgres", folder=folder, entrypoint=start, arguments=[]) as container:
        url = container.data / "database-url"
        if not until(url.exists, timeout_s=60):
            raise CheckFailed(f"The database for the roles did not start:\n{container.tail()}")
        yield (
            container,
            {
                "DATABASE_URL": url.read_text(encoding="utf-8").strip().replace("@127.0.0.1:", "@postgres:"),
                "VELA_SECRET_KEY": "k" * 50,
                "VELA_ADMIN_PASSWORD": "a password for the check",
                "VELA_AUTHENTICATION": "none",
            },
        )


def check_separate_roles(image: Image, net: Network, folder: Path) -> None:
    """Start and stop everything as compose.yaml does: a database, migrate, then broker, console, worker and beat."""
    with database(image, net, folder) as (postgres, environment), ExitStack() as stack:

        def start(role: str, name: str) -> Container:
            return stack.enter_context(
                Container(image, net, name=name, folder=folder, arguments=[role], environment=environment)
            )

        migrate(image, net, folder, environment)
        running = {role: start(role, role) for role in ("broker", "console", "beat", "worker")}
        for role, container in running.items():
            say(f"role {role}: healthy after {container.wait_healthy():.1f} s")
        for role in ("beat", "broker", "worker"):
            say(f"role {role}: stopped in {running[role].stop():.1f} s")
        _check_worker_is_one(start("worker", "worker-again"))
        postgres.stop()
        if running["console"].healthy():
            raise CheckFailed("The console's health check passes although its database is gone")
        say(f"role console: unhealthy without its database, stopped in {running['console'].stop():.1f} s")


def migrate(image: Image, net: Network, folder: Path, environment: Mapping[str, str]) -> None:
    """Run the one-shot role twice; the second time there is nothing to do."""
    for name in ("migrate", "migrate-again"):
        with Container(
            image, net, name=name, folder=folder, arguments=["migrate"], environment=environment
        ) as container:
            code = container.wait()
            if code != 0:
                raise CheckFailed(f"The role migrate ended with exit code {code}:\n{container.tail()}")
    say("role migrate: ended with 0, and again with nothing to do")


def _check_worker_is_one(worker: Container) -> None:
    """Check that the container ends if one of the role's two Celery processes is killed, so that it is restarted."""
    worker.wait_healthy()

    def halves() -> list[int]:
        return [pid for pid, command in worker.processes().items() if "celery" in command]

    if not until(lambda: len(halves()) >= 2, timeout_s=30):
        raise CheckFailed(f"The role worker runs {worker.processes()}")
    os.kill(halves()[0], signal.SIGKILL)
    code = worker.wait()
    if code != 1:
        raise CheckFailed(
            f"The role worker lost one of its processes and ended with {code}, not 1:\n{worker.tail()}"
        )
    say("role worker: ends when one of its two processes does")
