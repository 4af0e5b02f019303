"""The languages of the console's pages."""

from __future__ import annotations

from typing import Final

__all__ = ["LANGUAGE_NAMES"]

LANGUAGE_NAMES: Final = {"en": "English", "zh-hans": "简体中文"}
