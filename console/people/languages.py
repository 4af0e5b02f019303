"""The languages of the console's pages. English is the text of the source; the others are in `console/locale`."""

from __future__ import annotations

from typing import Final

__all__ = ["LANGUAGE_NAMES"]

LANGUAGE_NAMES: Final = {"en": "English", "zh-hans": "简体中文"}
"""Each language by Django's code for it, in its own words."""
