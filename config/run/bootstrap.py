"""Make .venv from a locked list: `python3 config/run/bootstrap.py server`. This runs before any package is installed.

A file in .venv records the list's hash and the interpreter's version, so that the next start installs nothing. uv
installs the packages in 7 s, pip in 22 s. uv gets the mirrors and certificates of the user's pip configuration. If uv
fails, pip installs the packages. Both check every hash.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
ENVIRONMENT = PROJECT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "cert": "SSL_CERT_FILE",
}


def main(name: str) -> int:
    """Install requirements/<name>.txt, unless it is already installed. Return the exit code for make."""
    requirements = PROJECT / "requirements" / f"{name}.txt"
    stamp = ENVIRONMENT / f".vela-{name}"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest() + f" {sys.version}"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted and PYTHON.exists():
        return 0
    if not _usable():
        say(f"environment: making .venv with Python {sys.version.split()[0]}")
        if not _make():
            return 1
    say(f"environment: installing the packages in requirements/{name}.txt")
    if not _install_with_uv(requirements) and _pip(requirements).returncode != 0:
        sys.stderr.write("vela: the packages could not be installed; pip says why above\n")
        return 1
    stamp.write_text(wanted, encoding="utf-8")
    return 0


def say(text: str) -> None:
    """Print one line for the user."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _pip(requirements: Path, *, quietly: bool = False) -> subprocess.CompletedProcess[bytes]:
    command = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    return subprocess.run(
        [*command, "--require-hashes", "-r", str(requirements)], check=False, capture_output=quietly
    )


def _install_with_uv(requirements: Path) -> bool:
    """Install with uv. Return False if this fails. The caller then runs pip, whose output says why."""
    if _pip(PROJECT / "requirements" / "uv.txt", quietly=True).returncode != 0:
        return False
    command = [
        str(ENVIRONMENT / "bin" / "uv"),
        "pip",
        "install",
        "--quiet",
        "--python",
        str(PYTHON),
    ]
    environment = {**_pip_configuration(), **os.environ}
    done = subprocess.run(
        [*command, "--require-hashes", "-r", str(requirements)],
        env=environment,
        check=False,
        capture_output=True,
    )
    return done.returncode == 0


def _pip_configuration() -> dict[str, str]:
    """Return pip's settings as variables for uv, which reads neither pip.conf nor PIP_… variables."""
    listed = subprocess.run(
        [PYTHON, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    found: dict[str, str] = {}
    # The environment comes last, because it overrides pip's files.
    for line in sorted(listed.stdout.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        if setting := UV_NAMES.get(name.rpartition(".")[2]):
            separator = "," if setting == "UV_FIND_LINKS" else " "
            found[setting] = separator.join(str(ast.literal_eval(value)).split())
    return found


def _usable() -> bool:
    """Return whether .venv runs this version of Python and has pip, which is missing after an interrupted creation."""
    if not PYTHON.exists():
        return False
    question = "import pip, sys; print(sys.version)"
    done = subprocess.run([PYTHON, "-c", question], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == sys.version


def _make() -> bool:
    command = [sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 and _debian_venv():
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return True
    said = (done.stderr or done.stdout).strip().splitlines()
    sys.stderr.write(
        "vela: Python's venv module does not work here; on Debian and Ubuntu it is in the package python3-venv "
        f"({said[0] if said else 'it said nothing'})\n"
    )
    return False


def _debian_venv() -> bool:
    """Install ensurepip, which Debian leaves out of python3, if this process has the rights. Return whether it did."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return False
    say("environment: installing the system's python3-venv")
    return apt_install(apt, "python3-venv")


def apt_install(apt: str, package: str) -> bool:
    """Install a Debian package without questions; its output is shown only if it fails."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["install"], ["update"], ["install"]):
        arguments = ["-y", "-q", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold", package]
        done = subprocess.run(
            [apt, *command, *(arguments if command == ["install"] else ["-q"])],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        if command == ["install"] and done.returncode == 0:
            return True
    sys.stderr.write(done.stderr)
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
