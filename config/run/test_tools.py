"""Install the system's programs that the tests need. If a program cannot be installed, name it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from config.run.bootstrap import apt_install, say

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
NEEDED = {  # alternative programs → a Debian package with such a program
    BROWSERS: "chromium",
    ("java",): "default-jre-headless",
}
POSTGRESQL_15 = Path("/usr/lib/postgresql/15/bin/postgres")


def main() -> int:
    """Install what is missing. Return the exit code for make."""
    apt = shutil.which("apt-get") if os.geteuid() == 0 else None
    for programs, package in NEEDED.items():
        if any(shutil.which(program) for program in programs):
            continue
        if apt is not None:
            say(f"tests: installing the system's {package}")
        if apt is None or not apt_install(apt, package):
            sys.stderr.write(
                f"vela: the tests need {programs[0]} and cannot install it here: "
                f"install the system's package (Debian: apt-get install {package}) and run make test again\n"
            )
            return 1
    if not os.environ.get("VELA_TEST_PG15_URL") and not POSTGRESQL_15.exists() and apt is not None:
        say("tests: installing the system's postgresql-15")
        _without_a_cluster()
        if not apt_install(apt, "postgresql-15"):
            say("tests: there is no postgresql-15 here; the oldest version tested will be the package's 16")
    return 0


def _without_a_cluster() -> None:
    """Tell Debian not to start a server on port 5432 when it installs PostgreSQL: the tests start their own."""
    configuration = Path("/etc/postgresql-common/createcluster.conf")
    if not configuration.exists():
        configuration.parent.mkdir(parents=True, exist_ok=True)
        configuration.write_text("create_main_cluster = false\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
