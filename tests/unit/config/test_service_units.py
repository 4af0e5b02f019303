"""The systemd units start what `make run` starts, and a process tells systemd when it is ready."""

from __future__ import annotations

import socket
from configparser import ConfigParser
from pathlib import Path

import pytest

from broker import service_manager
from broker.conf import EXIT_SETTING_INVALID, BrokerSettings
from config.environment import PROJECT_DIR, ProjectSettings
from config.run.options import Options
from config.run.processes import stages

FOLDER = PROJECT_DIR / "deploy" / "systemd"
UNITS = {path.name: path for path in FOLDER.glob("vela*.*") if path.is_file() and path.suffix != ".example"}
PYTHON = "/opt/vela/.venv/bin/python "


def read(path: Path) -> ConfigParser:
    """Parse a unit. Keys keep their capital letters. `%` has no meaning here, because systemd replaces it."""
    unit = ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(path.read_text(encoding="utf-8"))
    return unit


COMMON = read(FOLDER / "vela-.service.d" / "vela.conf")
SERVICES = {name: read(path) for name, path in UNITS.items() if name.endswith(".service")}


def test_the_services_are_the_processes_of_make_run(tmp_path: Path) -> None:
    options = Options.from_environment({"VELA_DATA_DIR": str(tmp_path)})
    started = {
        f"vela-{child.name}.service": [word.removeprefix(f"{PROJECT_DIR}/") for word in child.command[1:]]
        for stage in stages(options, {})
        for child in stage
    }
    others = {"vela-all.service": "-m config.run", "vela-migrate.service": "-m config.run.prepare"}
    expected = {name: " ".join(words) for name, words in started.items()} | others
    assert {
        name: unit["Service"]["ExecStart"].removeprefix(PYTHON) for name, unit in SERVICES.items()
    } == expected


def test_the_target_starts_every_service_but_the_one_that_runs_all() -> None:
    wanted = read(UNITS["vela.target"])["Unit"]["Wants"].split()
    assert sorted(wanted) == sorted(set(SERVICES) - {"vela-all.service"})


@pytest.mark.parametrize("name", SERVICES)
def test_a_unit_sets_nothing_that_the_common_part_would_override(name: str) -> None:
    for section in SERVICES[name].sections():
        common = set(COMMON[section]) - {"After", "Wants"} if COMMON.has_section(section) else set()
        assert not common & set(SERVICES[name][section])


def test_restarts_and_stops_agree_with_the_programs() -> None:
    service = COMMON["Service"]
    assert service["RestartPreventExitStatus"] == str(EXIT_SETTING_INVALID)
    defaults = ProjectSettings.from_environment({})
    assert int(service["TimeoutStopSec"]) > defaults.stop_timeout_s
    assert BrokerSettings.from_environment({}).lock_wait_s < 90  # systemd's default of TimeoutStartSec


@pytest.mark.parametrize("address", ["{folder}/notify", "@vela-test-{folder}"], ids=["path", "abstract"])
def test_a_process_tells_its_service_manager_that_it_is_ready(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = address.format(folder=tmp_path)[:100]
    monkeypatch.setenv(service_manager.SOCKET_VARIABLE, named)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(5)
        manager.bind(f"\0{named[1:]}" if named.startswith("@") else named)
        service_manager.tell(service_manager.READY)
        assert manager.recv(100) == b"READY=1"


@pytest.mark.parametrize("address", ["", "/nowhere/at/all", "@nobody-listens-here"])
def test_a_process_runs_without_a_service_manager(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(service_manager.SOCKET_VARIABLE, address)
    service_manager.tell(service_manager.READY)


def test_no_child_of_make_run_gets_the_socket_of_the_service_manager(tmp_path: Path) -> None:
    options = Options.from_environment({"VELA_DATA_DIR": str(tmp_path)})
    for stage in stages(options, {service_manager.SOCKET_VARIABLE: "/run/notify", "PATH": "/bin"}):
        for child in stage:
            assert service_manager.SOCKET_VARIABLE not in child.environment
            assert child.environment["PATH"] == "/bin"
