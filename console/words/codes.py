"""What pages say about codes of second factors that do not fit."""

from __future__ import annotations

from typing import Final

__all__ = ["NO_FACTOR", "WRONG_CODE", "WRONG_PASSWORD"]

WRONG_CODE: Final = (
    "This code is wrong, too old or used already. The app shows a new one every 30 seconds; if none works, check the"
    " clock of your device."
)
WRONG_PASSWORD: Final = "This is not your password."  # noqa: S105 - a sentence
NO_FACTOR: Final = "You have no second factor."
