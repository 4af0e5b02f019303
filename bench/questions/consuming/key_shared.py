"""What does Key_Shared with many consumers and keys cost?"""

from __future__ import annotations

from bench.figures import Figure
from bench.questions.consuming.types_compared import compared
from bench.setting import Setting
from vela.wire.binary.enums import SubType

__all__ = ["ask"]

KEYS = 1000


def ask(setting: Setting) -> list[Figure]:
    """Eight Key_Shared consumers against an Exclusive one, of the same keyed messages."""
    return compared(setting, SubType.KEY_SHARED, keys=KEYS)
