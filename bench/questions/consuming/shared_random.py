"""What does Shared with many consumers cost, whose acks come in no order?"""

from __future__ import annotations

from bench.figures import Figure
from bench.questions.consuming.types_compared import compared
from bench.setting import Setting
from vela.wire.binary.enums import SubType

__all__ = ["ask"]


def ask(setting: Setting) -> list[Figure]:
    """Eight Shared consumers against an Exclusive one."""
    return compared(setting, SubType.SHARED)
