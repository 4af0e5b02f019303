"""Where the console's templates and static files are, for the settings of a project that embeds it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["STATIC_DIR", "TEMPLATES_DIR"]

_ROOT: Final = Path(__file__).resolve().parent.parent
TEMPLATES_DIR: Final = _ROOT / "templates"
STATIC_DIR: Final = _ROOT / "static"
