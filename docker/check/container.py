"""A container without an engine: namespaces of the kernel, entered with programs of util-linux."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from docker.check.image import Image
from docker.check.programs import CheckFailed, capture, until

__all__ = ["Container", "Network", "network"]

OUTSIDE = "192.0.2.1"  # reserved for documentation, so no machine has it

# Runs as root inside the new namespaces and at the end becomes process 1. The root file system is read-only, as in
# compose.yaml; /tmp, /dev and the volume are separate for each container.
_PREPARE = r"""
set -eu
root=$1 data=$2 hosts=$3 name=$4
shift 4
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=0755 tmpfs "$root/dev"
for device in null zero full random urandom; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/shm"
mount -t tmpfs -o mode=1777,size=64m tmpfs "$root/dev/shm"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount --bind "$data" "$root/data"
touch "$root/etc/hosts"
mount --bind "$hosts" "$root/etc/hosts"
mount -o remount,bind,ro "$root"
hostname "$name"
exec chroot "$root" "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A separate network: every port is free, every name resolves to 127.0.0.1, OUTSIDE is a second address."""

    holder: int  # id of the process that keeps the network alive
    hosts: Path  # /etc/hosts of the containers inside

    def command(self) -> list[str]:
        """Return the words to put before a command so that it runs inside."""
        return ["nsenter", f"--net=/proc/{self.holder}/ns/net"]

    def reaches(self, port: int) -> bool:
        """Return whether a process listens for connections from other machines, as a published port needs."""
        knock = f"import socket; socket.create_connection(('{OUTSIDE}', {port}), 3)"
        return capture([*self.command(), sys.executable, "-c", knock]).returncode == 0


@contextlib.contextmanager
def network(folder: Path, names: tuple[str, ...]) -> Iterator[Network]:
    """Create a network for containers, and delete it at the end."""
    hosts = folder / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {' '.join(names)}\n", encoding="ascii")
    holder = subprocess.Popen(
        [
            "unshare",
            "--net",
            "sh",
            "-c",
            f"ip link set lo up && ip address add {OUTSIDE} dev lo && echo up && exec sleep infinity",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        if holder.stdout is None or holder.stdout.readline() != "up\n":
            raise CheckFailed("This machine's kernel allows no network namespace: run the check as root")
        yield Network(holder=holder.pid, hosts=hosts)
    finally:
        holder.kill()
        holder.wait()


class Container:
    """A started container. Use it as a context manager: at the end, processes that still run are killed."""

    def __init__(
        self,
        image: Image,
        net: Network,
        *,
        name: str,
        folder: Path,
        arguments: list[str],
        environment: Mapping[str, str] | None = None,
        entrypoint: list[str] | None = None,
        data: Path | None = None,
    ) -> None:
        self.name = name
        self._image = image
        self._net = net
        self._environment = {**image.environment, **(environment or {})}
        self.data = data or folder / name
        self.log = folder / f"{name}.log"
        if data is None:
            self.data.mkdir()
            uid, gid = _ids(image)
            self.data.chmod(0o750)
            os.chown(self.data, uid, gid)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *net.command(),
                    *("unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child"),
                    *("sh", "-c", _PREPARE, "sh", str(image.root), str(self.data), str(net.hosts), name),
                    *self._as_user(),
                    *(image.entrypoint if entrypoint is None else entrypoint),
                    *arguments,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def healthy(self) -> bool:
        """Run the image's health check beside process 1, as an engine does."""
        return self.execute(self._image.health).returncode == 0

    def execute(self, command: list[str], *, timeout_s: float = 30) -> subprocess.CompletedProcess[str]:
        """Run a command inside, as the image's user."""
        return capture([*self._enter(), *self._as_user(), *command], timeout_s=timeout_s)

    def wait_healthy(self, timeout_s: float = 90) -> float:
        """Return the seconds until the health check passes. Raises CheckFailed if it does not, or process 1 ends."""
        started_s = time.monotonic()
        if until(lambda: self._ended() or (self._is_inside() and self.healthy()), timeout_s=timeout_s):
            if not self._ended():
                return time.monotonic() - started_s
            raise CheckFailed(f"{self.name} ended with exit code {self._process.returncode}:\n{self.tail()}")
        said = self.execute(self._image.health).stdout.strip()
        raise CheckFailed(f"{self.name} is not healthy after {timeout_s:.0f} s ({said}):\n{self.tail()}")

    def wait(self, timeout_s: float = 90) -> int:
        """Wait until process 1 ends by itself and return its exit code."""
        return self._process.wait(timeout_s)

    def stop(self, grace_s: float = 30, *, expected: int = 0) -> float:
        """Send SIGTERM to process 1. Return the seconds until it ends. Raises CheckFailed for another exit code."""
        started_s = time.monotonic()
        os.kill(self._first(), signal.SIGTERM)
        try:
            code = self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            raise CheckFailed(f"{self.name} did not stop within {grace_s:.0f} s:\n{self.tail()}") from None
        if code != expected:
            raise CheckFailed(f"{self.name} was stopped and ended with exit code {code}:\n{self.tail()}")
        return time.monotonic() - started_s

    def processes(self) -> dict[int, str]:
        """Return the command lines of all processes inside, by their process ids outside."""
        inside = Path(f"/proc/{self._first()}/ns/pid").readlink()
        found: dict[int, str] = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended in the meantime
                if (folder / "ns/pid").readlink() == inside:
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return found

    def tail(self) -> str:
        """Return the end of the container's output."""
        return self.log.read_text(encoding="utf-8", errors="replace").strip()[-3000:]

    def _as_user(self) -> list[str]:
        uid, gid = _ids(self._image)
        return [
            *("setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs"),
            *("--bounding-set=-all", "--inh-caps=-all", "env", "-i", f"--chdir={self._image.folder}"),
            *(f"{name}={value}" for name, value in self._environment.items()),
        ]

    def _enter(self) -> list[str]:
        return ["nsenter", f"--target={self._first()}", "--all", "--root", "--wdns=/"]

    def _first(self) -> int:
        """Return the process id that process 1 has outside the container."""
        unshare = self._process.pid
        children = Path(f"/proc/{unshare}/task/{unshare}/children").read_text(encoding="ascii").split()
        if not children:
            raise CheckFailed(f"{self.name} has no process:\n{self.tail()}")
        return int(children[0])

    def _ended(self) -> bool:
        return self._process.poll() is not None

    def _is_inside(self) -> bool:
        """Return whether process 1 has finished the preparation and runs the image's entrypoint."""
        try:
            return Path(f"/proc/{self._first()}/root").readlink() == self._image.root
        except (OSError, CheckFailed):
            return False


def _ids(image: Image) -> tuple[int, int]:
    uid, _, gid = image.user.partition(":")
    return int(uid), int(gid)
