"""Tell the service manager, such as systemd, that a process is ready or stopping."""

from __future__ import annotations

import os
import socket
from typing import Final

__all__ = ["READY", "SOCKET_VARIABLE", "STOPPING", "tell"]

SOCKET_VARIABLE: Final = "NOTIFY_SOCKET"
READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"


def tell(state: str) -> None:
    """Send the state to the service manager, if NOTIFY_SOCKET is set. Ignores errors."""
    address = os.environ.get(SOCKET_VARIABLE, "")
    if not address:
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.setblocking(False)
        try:
            manager.sendto(state.encode(), address)
        except OSError:
            return
