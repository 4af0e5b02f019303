"""How much slower than one Exclusive consumer are many Key_Shared consumers?"""

from __future__ import annotations

from bench.figures import Figure
from bench.questions.consuming.types_compared import compared
from bench.setting import Setting
from vela.wire.binary.enums import SubType

__all__ = ["ask"]

KEYS = 1000


def ask(setting: Setting) -> list[Figure]:
    """Compare eight Key_Shared consumers with one Exclusive consumer, on the same messages with keys."""
    return compared(setting, SubType.KEY_SHARED, keys=KEYS)
