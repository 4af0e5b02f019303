"""The remark of an interrupted command about the act that it had requested."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vela.cli.errors import say

__all__ = ["named_if_interrupted"]


@contextmanager
def named_if_interrupted(act_id: int) -> Iterator[None]:
    """After Ctrl-C, name the act that is being applied: a requested act cannot be called back."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"\nact {act_id} was requested and may still be applied; look with `vela acts show {act_id}`")
        raise
