"""Vela's broker as a Django app. Projects import `publish` and `apublish` from here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker.outbox import apublish, publish

__all__ = ["apublish", "publish"]


def __getattr__(name: str) -> Any:
    """Import `outbox` on first use, because most processes never publish."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from broker import outbox

    return getattr(outbox, name)
