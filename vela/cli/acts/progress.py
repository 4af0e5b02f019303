"""What an interrupted command says about the act that it requested."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vela.cli.errors import say

__all__ = ["named_if_interrupted"]


@contextmanager
def named_if_interrupted(act_id: int) -> Iterator[None]:
    """If Ctrl-C interrupts the block, name the act: once requested, it cannot be called back."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"\nact {act_id} was requested and may still be applied; look with `vela acts show {act_id}`")
        raise
