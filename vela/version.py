"""The version, in a separate module so that the build can read it without importing the client."""

from __future__ import annotations

from typing import Final

__all__ = ["__version__"]

__version__: Final = "0.1.0"
