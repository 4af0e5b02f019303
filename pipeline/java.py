"""Check that there is a Java runtime that Spark can use."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipeline.errors import JavaMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LEAST_VERSION", "has_ended", "require_java"]

LEAST_VERSION: Final = 17
_TIMEOUT_S: Final = 20.0
_END_S: Final = 0.5
_VERSION = re.compile(r'version "(?:1\.)?(?P<major>\d+)')
_ADVICE: Final = (
    f"install a Java {LEAST_VERSION} runtime (Debian: openjdk-17-jre-headless) or set JAVA_HOME to one"
)


def require_java() -> Path:
    """Return the `java` that Spark will start: JAVA_HOME's, or the first in PATH. Raises JavaMissing."""
    java = _find()
    try:
        said = subprocess.run(  # noqa: S603 - the user's own java, as Spark would start it
            [str(java), "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        raise JavaMissing(
            f"Spark needs Java {LEAST_VERSION} or newer, and {java} does not run: {_ADVICE}"
        ) from None
    found = _VERSION.search(said.stderr + said.stdout)
    if said.returncode != 0 or found is None:
        raise JavaMissing(
            f"Spark needs Java {LEAST_VERSION} or newer, and {java} does not print its version: {_ADVICE}"
        )
    if int(found["major"]) < LEAST_VERSION:
        raise JavaMissing(
            f"Spark needs Java {LEAST_VERSION} or newer, and {java} is version {found['major']}: {_ADVICE}"
        )
    return java


def has_ended(spark: SparkSession) -> bool:
    """Return whether the Java process of a session has ended or was killed."""
    gateway = spark.sparkContext._gateway  # noqa: SLF001 - PySpark has no public state of its Java process
    if gateway is None:
        return True
    try:
        gateway.proc.wait(_END_S)  # Java closes its sockets a little before it ends
    except subprocess.TimeoutExpired:
        return False
    return True


def _find() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not java.is_file():
            raise JavaMissing(
                f"Spark needs Java {LEAST_VERSION} or newer, and JAVA_HOME = {home} has no bin/java: {_ADVICE}"
            )
        return java
    in_path = shutil.which("java")
    if in_path is None:
        raise JavaMissing(
            f"Spark needs Java {LEAST_VERSION} or newer, and there is no java in PATH: {_ADVICE}"
        )
    return Path(in_path)
