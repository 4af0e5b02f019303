"""Build the image without an engine: buildah inside a chroot, on a Debian from debootstrap."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from docker.check.programs import PROJECT_DIR, CheckFailed, capture, own_python, run, say

__all__ = ["Builder", "Image"]

SUITE = "bookworm"
_PACKAGES = "python3,python3-venv,ca-certificates"  # the parts of python:3.11-slim that Vela's image needs
_BASE = "localhost/vela-check-base"
_CACHE = Path("~/.cache/vela-docker-check").expanduser()


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The parts of a built image that an engine uses."""

    name: str
    root: Path  # its files, mounted
    entrypoint: list[str]
    command: list[str]
    environment: dict[str, str]
    user: str  # uid:gid
    folder: str  # where its processes start
    volumes: list[str]
    ports: list[str]
    health: list[str]  # the health check's command
    size_bytes: int


class Builder:
    """buildah with a separate store below `folder`, which `close` deletes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store = folder / "store"
        (folder / "tmp").mkdir()
        self._buildah = [
            *(
                "buildah",
                "--root",
                str(self._store),
                "--runroot",
                str(folder / "run"),
                "--storage-driver",
                "vfs",
            ),
        ]
        self._environment = {
            **os.environ,
            "TMPDIR": str(folder / "tmp"),
            "BUILDAH_ISOLATION": "chroot",
            "XDG_RUNTIME_DIR": str(folder),
        }

    def make_base(self) -> None:
        """Make an image of a minimal Debian with its own Python, from the cached archive if there is one."""
        archive = _CACHE / f"{SUITE}+{_PACKAGES.replace(',', '+')}.tar"
        if not archive.exists():
            self._debootstrap(archive)
        container = self._run("from", "scratch").strip()
        self._run("add", "--quiet", container, str(archive), "/")
        self._run("commit", "--quiet", "--rm", container, _BASE)

    def build(self, target: str) -> Image:
        """Build one target of the Dockerfile and mount it. Raises CheckFailed with the end of the build's output."""
        name = f"localhost/vela-check-{target}"
        self._run(
            *("bud", "--format", "docker", "--isolation", "chroot", "--pull-never"),
            *("--build-arg", f"BASE={_BASE}", "--target", target, *self._pip_secrets()),
            *("--tag", name, "--file", "docker/Dockerfile", str(PROJECT_DIR)),
        )
        described = json.loads(self._run("inspect", "--type", "image", name))
        root = Path(self._run("mount", self._run("from", "--pull-never", name).strip()).strip())
        return _image(name, root, described["Docker"]["config"])

    def close(self) -> None:
        """Delete the store with everything in it."""
        capture([*self._buildah, "umount", "--all"], env=self._environment)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._buildah, *arguments],
            cwd=PROJECT_DIR,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip()[-6000:]
            raise CheckFailed(f"`buildah {arguments[0]}` ended with exit code {done.returncode}:\n{said}")
        return done.stdout

    def _debootstrap(self, archive: Path) -> None:
        say(f"making a minimal Debian {SUITE} (kept in {archive}; delete it to have a newer one)")
        root = self._folder / "base"
        run(["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", SUITE, root, _debian_mirror()])
        run(["chroot", root, "apt-get", "clean"])
        shutil.rmtree(root / "var/lib/apt/lists", ignore_errors=True)
        archive.parent.mkdir(parents=True, exist_ok=True)
        fresh = archive.with_suffix(".new")
        run(["tar", "--numeric-owner", "--one-file-system", "-C", root, "-cf", fresh, "."])
        fresh.replace(archive)
        shutil.rmtree(root)

    def _pip_secrets(self) -> list[str]:
        """Return the build secrets: this machine's pip configuration and certificates. The image keeps neither."""
        settings = _pip_settings(own_python(self._folder))
        arguments: list[str] = []
        if certificates := settings.pop("cert", ""):
            arguments += ["--secret", f"id=ca.crt,src={certificates}"]
            settings["cert"] = "/run/secrets/ca.crt"
        if settings:
            file = self._folder / "pip.conf"
            lines = [f"{name} = {value}" for name, value in settings.items()]
            file.write_text("\n".join(["[global]", *lines, ""]), encoding="utf-8")
            file.chmod(0o600)
            arguments += ["--secret", f"id=pip.conf,src={file}"]
        return arguments


def _pip_settings(python: Path) -> dict[str, str]:
    """Return where pip finds packages on this machine, by `pip config list`. A later line wins, as in pip."""
    wanted = ("index-url", "extra-index-url", "trusted-host", "cert", "proxy", "timeout")
    settings: dict[str, str] = {}
    for line in run([python, "-m", "pip", "config", "list"]).splitlines():
        key, _, value = line.partition("=")
        name = key.rpartition(".")[2].removeprefix("default-")
        if name in wanted:
            settings[name] = value.strip("'\"").replace("\\n", "\n  ")
    return settings


def _debian_mirror() -> str:
    """Return the mirror that apt uses on this machine for the suite. Raises CheckFailed if there is none."""
    form = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(LABEL)", "Created-By: Packages"]
    done = capture(form)
    for line in done.stdout.splitlines():
        uri, _, rest = line.partition(" ")
        if rest == f"{SUITE} Debian":
            return uri.rstrip("/")
    raise CheckFailed(
        f"apt knows no mirror of {SUITE}: name one in /etc/apt/sources.list and run apt-get update"
    )


def _image(name: str, root: Path, config: Mapping[str, object]) -> Image:
    def strings(key: str) -> list[str]:
        value = config.get(key)
        return [str(part) for part in value] if isinstance(value, (list, dict)) else []

    health = config.get("Healthcheck")
    test = list(health.get("Test", [])) if isinstance(health, dict) else []
    if test[:1] != ["CMD"]:
        raise CheckFailed(f"{name} has no health check in exec form: {test}")
    return Image(
        name=name,
        root=root,
        entrypoint=strings("Entrypoint"),
        command=strings("Cmd"),
        environment=dict(line.split("=", 1) for line in strings("Env")),
        user=str(config.get("User", "")),
        folder=str(config.get("WorkingDir", "/")),
        volumes=strings("Volumes"),
        ports=strings("ExposedPorts"),
        health=[str(part) for part in test[1:]],
        size_bytes=sum(path.lstat().st_size for path in root.rglob("*") if not path.is_symlink()),
    )
