"""Open a TCP port on asyncio's event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

__all__ = ["listen"]

_EVERYWHERE: Final = "::"


async def listen(make_protocol: Callable[[], asyncio.Protocol], host: str, port: int) -> asyncio.Server:
    """Listen on an address. Raises OSError if the address cannot be used.

    On the address `::`, listen on IPv4 too. asyncio alone would leave out IPv4.
    """
    loop = asyncio.get_running_loop()
    if host != _EVERYWHERE or not socket.has_dualstack_ipv6():
        return await loop.create_server(make_protocol, host, port)
    bound = socket.create_server((host, port), family=socket.AF_INET6, dualstack_ipv6=True)
    return await loop.create_server(make_protocol, sock=bound)
