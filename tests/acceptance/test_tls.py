"""A whole Vela that serves only with TLS: Apache's client, curl, `vela`, and a renewal while a producer sends."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pulsar
import pytest

from config.environment import PROJECT_DIR
from tests.support.certificates import Authority, KeyPair
from tests.support.ports import free_ports
from tests.support.vela import ADMIN_PASSWORD, VelaProcess, started_vela
from tests.support.waiting import wait_until


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SecureVela:
    """A started Vela and the files that belong to it."""

    process: VelaProcess
    authority: Authority
    folder: Path  # of the certificate and the key in use

    @property
    def pulsar_url(self) -> str:
        return f"pulsar+ssl://localhost:{self.process.environment['VELA_PULSAR_TLS_PORT']}"

    def client(self, pair: KeyPair | None = None) -> pulsar.Client:
        own = (
            {}
            if pair is None
            else {"authentication": pulsar.AuthenticationTLS(pair.certificate, pair.private_key)}
        )
        return pulsar.Client(
            self.pulsar_url,
            tls_trust_certs_file_path=self.authority.file,
            tls_validate_hostname=True,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
            **own,
        )

    def get(self, door: str, path: str, *, trust: str | None = None) -> tuple[int, str]:
        """Return curl's exit code, and the status and body that it got from VELA_⟨door⟩_TLS_PORT."""
        url = f"https://localhost:{self.process.environment[f'VELA_{door}_TLS_PORT']}{path}"
        done = subprocess.run(
            ["curl", "-s", "-m", "10", "--cacert", trust or self.authority.file, "-w", "%{http_code}", url],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    def served(self) -> str:
        """The subject of the certificate that the Pulsar port presents now."""
        port = self.process.environment["VELA_PULSAR_TLS_PORT"]
        done = subprocess.run(
            ["openssl", "s_client", "-connect", f"localhost:{port}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return next(line for line in done.stdout.splitlines() if line.startswith("subject"))

    def show(self, pair: KeyPair) -> None:
        """Put a certificate and its key where Vela looks for them."""
        for name, file in (("certificate", pair.certificate), ("key", pair.private_key)):
            shutil.copy(file, self.folder / f"{name}.new")
            os.replace(self.folder / f"{name}.new", self.folder / name)


@pytest.fixture(scope="module")
def secure(vela_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureVela]:
    folder = tmp_path_factory.mktemp("hidden-place")
    authority = Authority(tmp_path_factory.mktemp("authority"))
    doors = ("PULSAR", "HTTP", "CONSOLE")
    settings = {f"VELA_{door}_PORT": "off" for door in doors}
    settings |= {f"VELA_{door}_TLS_PORT": str(port) for door, port in zip(doors, free_ports(3), strict=True)}
    settings |= {
        "VELA_TLS_CERTIFICATE_FILE": str(folder / "certificate"),
        "VELA_TLS_KEY_FILE": str(folder / "key"),
        "VELA_TLS_TRUST_FILE": authority.file,
    }
    pair = authority.issue("first", "localhost", "127.0.0.1")
    shutil.copy(pair.certificate, folder / "certificate")
    shutil.copy(pair.private_key, folder / "key")
    with started_vela(settings, data=vela_data) as process:
        yield SecureVela(process=process, authority=authority, folder=folder)


def test_apaches_client_sends_and_receives_with_and_without_a_certificate(secure: SecureVela) -> None:
    for pair in (None, secure.authority.issue("billing")):
        client = secure.client(pair)
        try:
            consumer = client.subscribe("tls", "s")
            client.create_producer("tls").send(b"encrypted")
            message = consumer.receive(20_000)
            assert message.data() == b"encrypted"
            consumer.acknowledge(message)
            consumer.close()
        finally:
            client.close()


def test_https_serves_the_broker_and_the_console_and_a_wrong_authority_is_not_accepted(
    secure: SecureVela, tmp_path: Path
) -> None:
    assert secure.get("HTTP", "/readyz") == (0, '{"status":"ready"}200')
    assert secure.get("CONSOLE", "/readyz")[1].endswith("200")
    code, login = secure.get("CONSOLE", "/login")
    assert (code, login[-3:]) == (0, "200")
    assert "<form" in login
    assert_login(secure)
    stranger = Authority(tmp_path, "Stranger")
    assert secure.get("HTTP", "/readyz", trust=stranger.file)[0] == 60  # curl: the certificate is not trusted
    assert "broker: healthy" in secure.process.manage("healthcheck", "broker")
    assert "console: healthy" in secure.process.manage("healthcheck", "console")


def assert_login(secure: SecureVela) -> None:
    """Log in, and check that the console accepts its own origin and sets cookies for https only."""
    base = f"https://localhost:{secure.process.environment['VELA_CONSOLE_TLS_PORT']}"
    context = ssl.create_default_context(cafile=secure.authority.file)
    with httpx.Client(base_url=base, verify=context, follow_redirects=True, timeout=20) as browser:
        browser.get("/login")
        cookies = {cookie.name: cookie for cookie in browser.cookies.jar}
        assert cookies["csrftoken"].secure
        fields = {
            "username": "admin",
            "password": ADMIN_PASSWORD,
            "csrfmiddlewaretoken": cookies["csrftoken"].value,
        }
        page = browser.post("/login", data=fields, headers={"Origin": base})
        assert (page.status_code, page.url.path) == (200, "/")


def test_vela_consumes_over_both_transports(secure: SecureVela) -> None:
    ports = secure.process.environment
    for url in (secure.pulsar_url, f"wss://localhost:{ports['VELA_HTTP_TLS_PORT']}"):
        for words in (
            ["produce", "from-vela", "hello"],
            ["consume", "from-vela", "s", "-n", "1", "--start", "earliest", "--json"],
        ):
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "vela.cli",
                    "--url",
                    url,
                    "--tls-trust-file",
                    secure.authority.file,
                    *words,
                ],
                cwd=PROJECT_DIR,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, done.stderr
        assert "hello" in done.stdout


def test_a_renewal_disturbs_no_producer_and_an_unusable_file_changes_nothing(secure: SecureVela) -> None:
    results: list[Any] = []
    stopping = threading.Event()
    client = secure.client()
    try:
        producer = client.create_producer("renewed")

        def send_on() -> None:
            while not stopping.is_set():
                results.append(producer.send(b"x"))

        sending = threading.Thread(target=send_on)
        sending.start()
        try:
            assert "first" in secure.served()
            secure.show(secure.authority.issue("second", "localhost", "127.0.0.1"))
            wait_until(lambda: "second" in secure.served(), "the new certificate", every_s=0.1)
            (secure.folder / "key").write_text("no key", encoding="ascii")
            wait_until(lambda: "a changed TLS file cannot be used" in broker_log(secure), "the log to say so")
            assert "second" in secure.served()
            before = len(results)
            wait_until(lambda: len(results) > before + 10, "sends after that")
        finally:
            stopping.set()
            sending.join(20)
        assert "reconnect" not in broker_log(secure)
    finally:
        client.close()
    page = secure.get("HTTP", "/metrics")[1]
    (expires,) = [
        line for line in page.splitlines() if line.startswith("vela_tls_certificate_expires_seconds ")
    ]
    assert 0 < float(expires.split()[1]) <= 24 * 3600


def broker_log(secure: SecureVela) -> str:
    return (secure.process.data_dir / "log" / "broker.log").read_text(encoding="utf-8")


def test_neither_log_nor_process_list_tells_where_the_key_is(secure: SecureVela) -> None:
    listed = subprocess.run(["ps", "-eww", "-o", "args="], capture_output=True, text=True, check=True).stdout
    logs = [path.read_text(encoding="utf-8") for path in (secure.process.data_dir / "log").glob("*.log")]
    assert len(logs) > 3
    for text in (listed, secure.process.text(), *logs):
        assert "hidden-place" not in text
    assert json.loads(secure.get("HTTP", "/healthz")[1][:-3]) == {"status": "ok"}
