"""The wheel (the Python package): what it contains, and that it works outside the checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement

from config.environment import PROJECT_DIR
from config.run.children.lifeline import dies_with_parent
from config.run.postgres.server import PostgresServer
from tests.support.ports import free_ports
from tests.support.postgres import fresh_database
from tests.support.vela import VelaProcess
from tests.support.waiting import wait_until

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
    "docs",
)
_WHAT_IS_NOT = ("config", "tests", "bench")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy so that nothing is left in the checkout. The copy has folders that must stay out."""
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
    """The Python of an environment that has only the wheel and its requirements."""
    return _environment(tmp_path_factory.mktemp("environment"), wheel, extras=set())


@pytest.fixture(scope="module")
def server_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that also has the requirements of the extra `server`."""
    return _environment(tmp_path_factory.mktemp("server"), wheel, extras={"server"})


def _environment(folder: Path, wheel: Path, *, extras: set[str]) -> Path:
    """Make an environment and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    interpreter = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(interpreter)]
    subprocess.run(
        [*pip, "install", "--no-deps", "--no-index", "--no-compile", str(wheel)], check=True, timeout=60
    )
    (packages,) = folder.glob("lib/python*/site-packages")
    (own,) = metadata.distributions(name="vela", path=[str(packages)])
    for name in _needed_by(own, extras):
        _lend(name, packages)
    return interpreter


def _needed_by(own: metadata.Distribution, extras: set[str]) -> set[str]:
    """Return the distributions that `own` needs with these extras, directly or through others."""
    found: set[str] = set()
    wanted = _requirements(own, extras)
    while wanted:
        requirement = wanted.pop()
        if requirement.name not in found or requirement.extras:
            found.add(requirement.name)
            wanted += _requirements(metadata.distribution(requirement.name), requirement.extras)
    return found


def _requirements(distribution: metadata.Distribution, extras: set[str]) -> list[Requirement]:
    return [
        requirement
        for requirement in map(Requirement, distribution.requires or [])
        if not requirement.marker
        or any(requirement.marker.evaluate({"extra": extra}) for extra in extras | {""})
    ]


def _lend(name: str, packages: Path) -> None:
    """Link a distribution of this environment into another one, instead of installing it over the network."""
    distribution = metadata.distribution(name)
    for top in {Path(str(file)).parts[0] for file in distribution.files or []} - {"..", "__pycache__"}:
        target = packages / top
        if not target.exists():
            target.symlink_to(Path(str(distribution.locate_file(top))).resolve())


def run(
    python: Path, *arguments: str, folder: Path, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the environment's Python outside the checkout."""
    return subprocess.run(
        [str(python), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=folder,
        env={**_outside(), **(variables or {})},
    )


def _outside() -> dict[str, str]:
    """Return the environment variables without those of this checkout."""
    mine = ("PYTHON", "VELA_", "DJANGO_")
    return {name: value for name, value in os.environ.items() if not name.startswith(mine)}


def test_the_wheel_contains_every_file_that_vela_needs_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in names}
    version = re.search(r'^__version__.*"(.*)"$', (PROJECT_DIR / "vela/version.py").read_text(), re.MULTILINE)
    assert version
    assert tops == {"vela", "broker", "console", "pipeline", f"vela-{version[1]}.dist-info"}
    for folder, pattern, inside in (
        ("templates", "**/*.html", "console/templates"),
        ("static", "**/*.*", "console/static"),
        ("docs", "**/*.md", "console/docs"),
        ("docs", "images/*.png", "console/docs"),
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
def test_the_client_of_the_wheel_publishes_and_consumes(
    python: Path, shared_vela: VelaProcess, tmp_path: Path, scheme: str
) -> None:
    url = shared_vela.pulsar_url if scheme == "pulsar" else shared_vela.websocket_url
    done = run(python, "-c", _PUBLISH_AND_CONSUME, url, f"wheel-{scheme}", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "from an empty environment\n"), done.stderr


def test_the_command_line_of_the_wheel_runs(python: Path, tmp_path: Path) -> None:
    done = run(python.parent / "vela", "--version", folder=tmp_path)
    assert done.stdout.startswith("vela "), done.stderr


def test_a_console_of_the_wheel_finds_its_templates(python: Path, tmp_path: Path) -> None:
    shows = "from console.paths import *; print(STATIC_DIR.is_dir(), (TEMPLATES_DIR / 'console').is_dir())"
    done = run(python, "-c", shows, folder=tmp_path)
    assert done.stdout == "True True\n", done.stderr


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A user's Django project, outside the checkout."""
    return shutil.copytree(PROJECT_DIR / "docs/examples/shop", tmp_path / "shop")


COMMANDS = [
    path.stem
    for app in ("broker", "console")
    for path in sorted((PROJECT_DIR / app / "management/commands").glob("[!_]*.py"))
]
_HELP = """
import json
import os
import sys

import django
from django.core.management import get_commands, load_command_class

os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
django.setup()
found = get_commands()
print(json.dumps({
    name: load_command_class(found[name], name).create_parser("manage.py", name).format_help() for name in sys.argv[1:]
}))
"""


def test_each_command_runs_in_another_project(server_python: Path, shop: Path) -> None:
    """One process prints the help of every command: a process for each command would take many times as long."""
    done = run(server_python, "-c", _HELP, *COMMANDS, folder=shop)
    assert done.returncode == 0, done.stderr
    texts = json.loads(done.stdout)
    assert list(texts) == COMMANDS
    for command, text in texts.items():
        assert text.startswith(f"usage: manage.py {command}")


def test_broker_and_console_serve_another_project(
    server_python: Path, shop: Path, postgres: PostgresServer, tmp_path: Path
) -> None:
    with fresh_database(postgres.url, "wheel_shop") as url:
        console, http, pulsar = free_ports(3)
        variables = {
            "DATABASE_URL": url,
            "VELA_CONSOLE_PORT": str(console),
            "VELA_HTTP_PORT": str(http),
            "VELA_PULSAR_PORT": str(pulsar),
        }
        for command in (["migrate", "--verbosity", "0"], ["createadmin"]):
            done = run(server_python, "manage.py", *command, folder=shop, variables=variables)
            assert done.returncode == 0, done.stderr
        with (
            _serving(server_python, shop, variables, "runbroker", http, "/readyz"),
            _serving(server_python, shop, variables, "runconsole", console, "/vela/login"),
        ):
            done = run(
                server_python,
                "-c",
                _PUBLISH_AND_CONSUME,
                f"pulsar://127.0.0.1:{pulsar}",
                "t",
                folder=tmp_path,
            )
            assert (done.returncode, done.stdout) == (0, "from an empty environment\n"), done.stderr


@contextmanager
def _serving(
    python: Path, shop: Path, variables: Mapping[str, str], command: str, port: int, path: str
) -> Iterator[None]:
    """Run a command of the shop, wait until its page answers, and stop it at the end."""
    log = shop / f"{command}.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [str(python), "manage.py", command],
            cwd=shop,
            env={**_outside(), **variables},
            stdout=output,
            stderr=output,
            preexec_fn=dies_with_parent(signal.SIGKILL),
        ) as process,
    ):

        def answers() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                return httpx.get(f"http://127.0.0.1:{port}{path}").status_code == httpx.codes.OK
            except httpx.TransportError:
                return False

        try:
            wait_until(answers, f"{command} answers", timeout_s=40)
            yield
        finally:
            process.terminate()
            process.wait(20)


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
