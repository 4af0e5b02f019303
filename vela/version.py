"""The release. A module of its own, so that the build and the client read it without each other."""

from __future__ import annotations

from typing import Final

__all__ = ["__version__"]

__version__: Final = "0.1.0"
