"""`vela stats` that repeats until Ctrl-C, in a terminal and in a pipe."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.vela import ADMIN_PASSWORD, VelaProcess
from tests.support.waiting import wait_until
from vela import Client

VELA = [sys.executable, "-m", "vela.cli"]
ENTERS, LEAVES = "\x1b[?1049h", "\x1b[?1049l"  # codes for the terminal's second screen


@pytest.fixture
def environment(shared_vela: VelaProcess) -> dict[str, str]:
    """The environment variables that a user exports, with a terminal of 40 lines."""
    return {
        **os.environ,
        "VELA_CONSOLE_URL": shared_vela.console_url,
        "VELA_USER": "admin",
        "VELA_PASSWORD": ADMIN_PASSWORD,
        "TERM": "xterm",
        "COLUMNS": "120",
        "LINES": "40",
    }


class Terminal:
    """A terminal. A thread reads what the program writes to it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._seen: list[bytes] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def text(self) -> str:
        """Everything that the program has written so far."""
        return b"".join(self._seen).decode(errors="replace")

    def type(self, keys: bytes) -> None:
        """Type a text, as on the keyboard."""
        os.write(self._descriptor, keys)

    def close(self) -> None:
        """Close the terminal, after the program has ended."""
        self._reader.join()
        os.close(self._descriptor)

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._descriptor, 65536)
            except OSError:  # raised when the program has ended
                return
            self._seen.append(piece)


@contextmanager
def in_a_terminal(environment: dict[str, str], *arguments: str) -> Iterator[tuple[int, Terminal]]:
    """Run a command in a new terminal. Return its process id and the terminal."""
    pid, descriptor = pty.fork()
    if not pid:
        os.execve(sys.executable, [*VELA, *arguments], environment)
    terminal = Terminal(descriptor)
    try:
        yield pid, terminal
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    finally:
        terminal.close()


def publish(vela: VelaProcess, topic: str) -> None:
    with Client(vela.websocket_url) as client:
        client.create_producer(topic).send(b"x")


def test_a_terminal_shows_updates_until_ctrl_c_and_gets_its_screen_back(
    shared_vela: VelaProcess, topic: str, environment: dict[str, str]
) -> None:
    name = topic.rpartition("/")[2] + "-followed"
    with in_a_terminal(environment, "stats", "--search", name, "--interval", "0.2") as (pid, terminal):
        wait_until(lambda: "no topic" in terminal.text(), "the first screen")
        publish(shared_vela, name)
        wait_until(lambda: name in terminal.text(), "the topic on a later screen")
        terminal.type(b"\x03")
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130, terminal.text()
    assert terminal.text().count(ENTERS) == terminal.text().count(LEAVES) == 1
    assert "Traceback" not in terminal.text()


def test_a_pipe_gets_a_document_each_time_until_it_is_interrupted(
    shared_vela: VelaProcess, topic: str, environment: dict[str, str]
) -> None:
    name = topic.rpartition("/")[2] + "-piped"
    process = subprocess.Popen(
        [*VELA, "stats", "--search", name, "--json", "--interval", "0.2"],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    lines = process.stdout
    assert lines is not None
    first = json.loads(lines.readline())
    assert first["topics"]["topics"] == []
    publish(shared_vela, name)
    later = wait_until(lambda: json.loads(lines.readline())["topics"]["topics"], "the topic")
    assert [row["name"] for row in later] == [f"persistent://public/default/{name}"]
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert (process.returncode, "Traceback" in said) == (130, False), said


def test_without_an_interval_a_pipe_gets_the_statistics_once(
    shared_vela: VelaProcess, environment: dict[str, str]
) -> None:
    for arguments in ([], ["--json"]):
        done = subprocess.run(
            [*VELA, "stats", *arguments],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, ENTERS in done.stdout) == (0, False), done.stderr
