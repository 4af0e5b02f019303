"""compose.yaml: what an operator relies on. `make docker-check` asks docker-compose itself."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from config.environment import PROJECT_DIR
from config.run.postgres.server import DURABLE
from docker.roles import PIPELINE_ROLES, ROLES

TEXT = (PROJECT_DIR / "docker/compose.yaml").read_text(encoding="utf-8")
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]
OURS = [name for name in SERVICES if name != "postgres"]
DEFAULTS = {  # PostgreSQL's, or those of its image
    "checkpoint_completion_target",
    "log_min_messages",
    "log_timezone",
    "max_connections",
    "synchronous_commit",
    "timezone",
}


def test_the_services_are_the_roles() -> None:
    assert {service["command"][0] for name, service in SERVICES.items() if name in OURS} == {
        *PIPELINE_ROLES,
        *(role for role in ROLES if role != "all"),
    }


def test_ports_are_published_on_the_loopback_address_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_no_authentication_is_a_choice_that_the_file_makes_and_the_image_does_not() -> None:
    assert "VELA_AUTHENTICATION: ${VELA_AUTHENTICATION:-none}" in TEXT
    image = (PROJECT_DIR / "docker/Dockerfile").read_text(encoding="utf-8")
    assert "VELA_BIND=0.0.0.0" in image
    assert "VELA_AUTHENTICATION" not in image


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_time_to_stop_and_a_restart_policy(name: str) -> None:
    assert SERVICES[name]["stop_grace_period"] == "30s"
    assert SERVICES[name]["restart"] == ("no" if name == "migrate" else "unless-stopped")


def test_the_database_has_the_settings_of_the_embedded_server() -> None:
    given = [argument.removeprefix("-c") for argument in SERVICES["postgres"]["command"][1:]]
    assert given == [f"{name}={value}" for name, value in DURABLE.items() if name not in DEFAULTS]


@pytest.mark.parametrize("secret", ["VELA_DB_PASSWORD", "VELA_SECRET_KEY", "VELA_ADMIN_PASSWORD"])
def test_secrets_have_no_default(secret: str) -> None:
    uses = re.findall(r"\$\{" + secret + r"(..)", TEXT)
    assert uses
    assert set(uses) == {":?"}
    example = (PROJECT_DIR / "docker/.env.example").read_text(encoding="utf-8")
    assert f"\n{secret}=\n" in example


@pytest.mark.parametrize("name", ["broker", "console", "worker", "beat"])
def test_nothing_starts_before_the_schema_is_there(name: str) -> None:
    assert SERVICES[name]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}


@pytest.mark.parametrize("name", ["broker", "console", "worker", "pipeline-worker", "spark-worker"])
def test_processes_that_use_offloaded_ledgers_see_the_same_files(name: str) -> None:
    service = SERVICES[name]
    assert "offload:/offload" in service["volumes"]
    assert {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} <= service["environment"].keys()
    if name != "spark-worker":  # this service gets the folder's address with each job
        assert service["environment"]["VELA_OFFLOAD_URL"].endswith(":-file:///offload}")


def test_jobs_publish_to_the_broker_by_its_name_in_the_network() -> None:
    assert SERVICES["pipeline-worker"]["environment"]["VELA_ADVERTISED_URL"] == "pulsar://broker:6650"


def test_every_setting_of_the_example_reaches_the_containers() -> None:
    example = (PROJECT_DIR / "docker/.env.example").read_text(encoding="utf-8")
    offered = re.findall(r"^#?([A-Z][A-Z0-9_]+)=", example, re.MULTILINE)
    assert "VELA_PROXY_COUNT" in offered
    assert [name for name in offered if f"${{{name}:" not in TEXT] == []


def test_the_fixed_container_name_prevents_a_second_beat() -> None:
    assert "container_name" in SERVICES["beat"]


def test_the_build_sees_only_named_files() -> None:
    lines = (PROJECT_DIR / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert next(line for line in lines if not line.startswith("#")) == "*"
