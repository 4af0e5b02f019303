"""One JSON object per line, with the fields that docs/reference/logs.md describes and no others.

This is a separate module, so that a process that logs text does not import python-json-logger.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pythonjsonlogger.json import JsonFormatter

__all__ = ["FIELDS", "JsonLine"]

# The keys of `extra` that a line has. Other keys are left out: libraries attach whole requests, with their passwords.
FIELDS: Final = ("topic", "subscription", "consumer", "producer", "client", "setting", "act")
_ALWAYS: Final = ("level", "logger", "pid", "message")
_SOMETIMES: Final = (*FIELDS, "exception", "stack")


class JsonLine(JsonFormatter):
    """Formats a record as one line of JSON. Everything outside ASCII is escaped, so no character can end the line."""

    def __init__(self) -> None:
        super().__init__(
            ["levelname", "name", "process", "message"],
            timestamp="time",
            rename_fields={
                "levelname": "level",
                "name": "logger",
                "process": "pid",
                "exc_info": "exception",
                "stack_info": "stack",
            },
            json_ensure_ascii=True,
        )

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        time: datetime = log_data["time"]
        line: dict[str, Any] = {"time": time.isoformat(timespec="microseconds").replace("+00:00", "Z")}
        line.update((name, log_data[name]) for name in _ALWAYS)
        line.update((name, log_data[name]) for name in _SOMETIMES if log_data.get(name) is not None)
        return line
