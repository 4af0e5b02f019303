"""Vela's broker as a Django app. A project that publishes needs only `from broker import publish`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker.outbox import apublish, publish

__all__ = ["apublish", "publish"]


def __getattr__(name: str) -> Any:
    """Import `publish` or `apublish` on first use, because every process imports this package and few publish."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from broker import outbox

    return getattr(outbox, name)
