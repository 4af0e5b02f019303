"""The client for asyncio. `vela` itself has the same client for threads."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from vela.aio.client import Client
from vela.aio.consumers.consumer import Consumer
from vela.aio.producers.producer import Producer
from vela.aio.readers.reader import Reader
from vela.aio.readers.table_view import TableView
from vela.errors import PulsarException

if TYPE_CHECKING:
    from vela.aio.pull.consumer import PullConsumer
    from vela.aio.pull.offsets import FileOffsets, MemoryOffsets, OffsetStore
    from vela.core.consuming.pull_loop import PullLimits

__all__ = [
    "Client",
    "Consumer",
    "FileOffsets",
    "MemoryOffsets",
    "OffsetStore",
    "Producer",
    "PullConsumer",
    "PullLimits",
    "PulsarException",
    "Reader",
    "TableView",
]

_LATER: Final = {  # imported when first used: importing httpx is slow, and most applications do not need it
    "FileOffsets": "vela.aio.pull.offsets",
    "MemoryOffsets": "vela.aio.pull.offsets",
    "OffsetStore": "vela.aio.pull.offsets",
    "PullConsumer": "vela.aio.pull.consumer",
    "PullLimits": "vela.core.consuming.pull_loop",
}


if not TYPE_CHECKING:  # so that a type checker sees only the imports above

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module 'vela.aio' has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
        return value
