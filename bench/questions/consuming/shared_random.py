"""How much slower than one Exclusive consumer are many Shared consumers that ack in random order?"""

from __future__ import annotations

from bench.figures import Figure
from bench.questions.consuming.types_compared import compared
from bench.setting import Setting
from vela.wire.binary.enums import SubType

__all__ = ["ask"]


def ask(setting: Setting) -> list[Figure]:
    """Compare eight Shared consumers with an Exclusive one."""
    return compared(setting, SubType.SHARED)
