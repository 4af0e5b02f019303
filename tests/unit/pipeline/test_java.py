"""The check for a Java runtime that Spark can use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.errors import JavaMissing
from pipeline.java import require_java
from pipeline.session import spark_session


def fake_java(folder: Path, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return java


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def test_without_java_the_error_says_what_to_install() -> None:
    with pytest.raises(
        JavaMissing, match="Spark needs Java 17 or newer, and there is no java in PATH: install"
    ):
        require_java()


@pytest.mark.parametrize(
    ("said", "version"), [("1.8.0_402", "8"), ("11.0.2", "11"), ("16-ea", "16"), ("9", "9")]
)
def test_an_old_java_is_refused_with_its_version(tmp_path: Path, said: str, version: str) -> None:
    java = fake_java(tmp_path / "bin", f"echo 'openjdk version \"{said}\" 2020-01-01' >&2")
    with pytest.raises(JavaMissing, match=rf"{java} is version {version}: install"):
        require_java()


@pytest.mark.parametrize("said", ["17.0.15", "17", "21.0.2", "25-ea"])
def test_a_new_enough_java_is_accepted(tmp_path: Path, said: str) -> None:
    java = fake_java(tmp_path / "bin", f"echo 'openjdk version \"{said}\" 2020-01-01' >&2")
    assert require_java() == java


@pytest.mark.parametrize("script", ["exit 1", "echo hello >&2", "echo 'java version \"17\"' >&2; exit 3"])
def test_a_java_that_prints_no_version_is_refused(tmp_path: Path, script: str) -> None:
    fake_java(tmp_path / "bin", script)
    with pytest.raises(JavaMissing, match="does not print its version"):
        require_java()


def test_a_java_that_cannot_be_run_is_refused(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "bin", "")
    java.write_bytes(b"\x7fELF-not")
    with pytest.raises(JavaMissing, match="does not run"):
        require_java()


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java(tmp_path / "bin", "echo 'openjdk version \"17\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with pytest.raises(JavaMissing, match="has no bin/java"):
        require_java()
    java = fake_java(tmp_path / "jdk" / "bin", "echo 'openjdk version \"21\"' >&2")
    assert require_java() == java


def test_no_session_is_begun_without_java() -> None:
    with pytest.raises(JavaMissing):
        spark_session("no java")
    assert "PYSPARK_PYTHON" not in os.environ
