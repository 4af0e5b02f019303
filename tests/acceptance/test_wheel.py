"""The wheel: what is in it, and that it works where nothing else of Vela's is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from config.environment import PROJECT_DIR
from tests.support.vela import VelaProcess

_WHAT_IS_BUILT = (
    "setup.py",
    "pyproject.toml",
    "README.md",
    "vela",
    "broker",
    "console",
    "pipeline",
    "templates",
    "static",
)
_WHAT_IS_NOT = ("config", "tests", "bench")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is left in the checkout, with folders beside it that must stay out."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in (*_WHAT_IS_BUILT, *_WHAT_IS_NOT):
        source = PROJECT_DIR / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    pip = [sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--wheel-dir", "dist", "."], cwd=folder, check=True, timeout=120)
    (built,) = (folder / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and what it says that it needs, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    interpreter = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(interpreter)]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", str(wheel)], check=True, timeout=60)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in _needed_by("vela", packages):
        _lend(name, packages)
    return interpreter


def _needed_by(name: str, packages: Path) -> set[str]:
    """The distributions that one without extras needs, and those that they need."""
    (own,) = metadata.distributions(name=name, path=[str(packages)])
    found: set[str] = set()
    wanted = list(own.requires or [])
    while wanted:
        requirement = Requirement(wanted.pop())
        if requirement.name in found or (
            requirement.marker and not requirement.marker.evaluate({"extra": ""})
        ):
            continue
        found.add(requirement.name)
        wanted += metadata.distribution(requirement.name).requires or []
    return found


def _lend(name: str, packages: Path) -> None:
    """Links the files of a distribution of this environment into another: as installing it there, without a network."""
    distribution = metadata.distribution(name)
    for top in {Path(str(file)).parts[0] for file in distribution.files or []} - {"..", "__pycache__"}:
        target = packages / top
        if not target.exists():
            target.symlink_to(Path(str(distribution.locate_file(top))).resolve())


def run(python: Path, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs the environment's Python somewhere where there is no checkout."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VELA_"))
    }
    return subprocess.run(
        [str(python), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=folder,
        env=environment,
    )


def test_what_the_wheel_holds(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in names}
    version = re.search(r'^__version__.*"(.*)"$', (PROJECT_DIR / "vela/version.py").read_text(), re.MULTILINE)
    assert version
    assert tops == {"vela", "broker", "console", "pipeline", f"vela-{version[1]}.dist-info"}
    for folder, pattern, inside in (
        ("templates", "**/*.html", "console/templates"),
        ("static", "**/*.*", "console/static"),
        ("broker", "**/*.sql", "broker"),
        ("console", "**/*.sql", "console"),
        ("pipeline", "**/*.sql", "pipeline"),
    ):
        files = [path.relative_to(PROJECT_DIR / folder) for path in (PROJECT_DIR / folder).glob(pattern)]
        assert files
        assert {f"{inside}/{file}" for file in files} <= names
    assert "vela/py.typed" in names


def test_the_server_is_not_needed_by_the_client(python: Path, tmp_path: Path) -> None:
    done = run(python, "-c", "import vela; print(vela.__version__)\nimport django", folder=tmp_path)
    assert "No module named 'django'" in done.stderr


_PUBLISH_AND_CONSUME = """
import sys
import vela

url, topic = sys.argv[1:]
with vela.Client(url) as client:
    consumer = client.subscribe(topic, "reports")
    producer = client.create_producer(topic, compression_type=vela.CompressionType.ZSTD)
    producer.send(b"from an empty environment")
    message = consumer.receive(timeout_millis=20000)
    consumer.acknowledge(message)
    print(message.data().decode())
"""


@pytest.mark.parametrize("scheme", ["pulsar", "ws"])
def test_publish_and_consume(python: Path, shared_vela: VelaProcess, tmp_path: Path, scheme: str) -> None:
    url = shared_vela.pulsar_url if scheme == "pulsar" else shared_vela.websocket_url
    done = run(python, "-c", _PUBLISH_AND_CONSUME, url, f"wheel-{scheme}", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "from an empty environment\n"), done.stderr


def test_the_command_line(python: Path, tmp_path: Path) -> None:
    done = run(python.parent / "vela", "--version", folder=tmp_path)
    assert done.stdout.startswith("vela "), done.stderr


def test_a_console_of_the_wheel_finds_its_templates(python: Path, tmp_path: Path) -> None:
    shows = "from console.paths import *; print(STATIC_DIR.is_dir(), (TEMPLATES_DIR / 'console').is_dir())"
    done = run(python, "-c", shows, folder=tmp_path)
    assert done.stdout == "True True\n", done.stderr


_TYPED = """
import vela

client = vela.Client("pulsar://localhost:6650")
consumer = client.subscribe("orders", "billing", consumer_type=vela.ConsumerType.Shared)
message = consumer.receive(timeout_millis=100)
reveal_type(message.data())
reveal_type(client.create_producer("orders").send(b"1"))
client.subscribe("orders", 7)
vela.Nonsense
"""


def test_a_type_checker_sees_the_types(python: Path, tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text(_TYPED)
    mypy = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--cache-dir",
        str(tmp_path / "cache"),
    ]
    done = subprocess.run(
        [*mypy, "--python-executable", str(python), "typed.py"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert 'Revealed type is "builtins.bytes"' in done.stdout or 'Revealed type is "bytes"' in done.stdout
    assert "MessageId" in done.stdout
    assert 'incompatible type "int"; expected "str"' in done.stdout
    assert 'has no attribute "Nonsense"' in done.stdout
    assert len([line for line in done.stdout.splitlines() if " error: " in line]) == 2, done.stdout
