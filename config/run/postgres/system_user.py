"""PostgreSQL refuses to run as root, so root runs it as a system user."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.run.errors import StartRefused

__all__ = ["SystemUser", "postgres_user"]

NAME = "vela"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemUser:
    """The user that the embedded server runs as. `uid` is None if that is the user who runs Vela."""

    name: str
    uid: int | None
    gid: int | None

    def popen_arguments(self) -> dict[str, Any]:
        """Return the arguments with which subprocess runs a program as this user, in a folder open to the user."""
        if self.uid is None:
            return {"cwd": "/"}
        return {"cwd": "/", "user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """Give a file or folder that Vela made to this user."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def may_run(self, program: Path) -> bool:
        """Run `program --version` as this user, and return whether it works: the program needs its libraries too."""
        try:
            done = subprocess.run(
                [program, "--version"], capture_output=True, check=False, **self.popen_arguments()
            )
        except OSError:
            return False
        return done.returncode == 0

    def may_enter(self, folder: Path) -> bool:
        """Return whether this user may enter and list a folder."""
        try:
            done = subprocess.run(
                ["ls", str(folder)],
                capture_output=True,
                check=False,
                **self.popen_arguments(),
            )
        except OSError:
            return False
        return done.returncode == 0


def postgres_user() -> SystemUser:
    """Return the user who runs Vela; for root the system user `vela`, made if possible, else `nobody`.

    Raises StartRefused if root finds neither.
    """
    if os.geteuid() != 0:
        return SystemUser(name=pwd.getpwuid(os.geteuid()).pw_name, uid=None, gid=None)
    for name in (NAME, "nobody"):
        if name == NAME and not _exists(name):
            _make(name)
        if _exists(name):
            entry = pwd.getpwnam(name)
            return SystemUser(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
    raise StartRefused(
        "PostgreSQL does not run as root and there is neither a system user `vela` nor `nobody`: "
        "make one, run Vela as another user, or name your own server in DATABASE_URL"
    )


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _make(name: str) -> None:
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if useradd is None:
        return
    arguments = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    subprocess.run(
        [useradd, *arguments, "--shell", "/usr/sbin/nologin", name], capture_output=True, check=False
    )
