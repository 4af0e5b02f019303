"""Folders of the console's templates and static files, for projects that embed the console."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["STATIC_DIR", "TEMPLATES_DIR"]

_HERE: Final = Path(__file__).resolve().parent


def _folder(name: str) -> Path:
    """Return a folder of the installed package. In a checkout, the folder is beside the package."""
    inside = _HERE / name
    return inside if inside.is_dir() else _HERE.parent / name


TEMPLATES_DIR: Final = _folder("templates")
STATIC_DIR: Final = _folder("static")
