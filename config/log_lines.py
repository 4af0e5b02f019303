"""The lines that every process of Vela logs: text for people, or JSON for a log store (docs/reference/logs.md)."""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from typing import Any, Literal

__all__ = ["LogFormat", "TextLine", "formatter_of", "logging_config", "say", "use_format"]

LogFormat = Literal["text", "json"]


class TextLine(logging.Formatter):
    """Time, level, logger and message on one line.

    Characters that are not printable are escaped: a client's text must not look like a separate line, and must not
    control a terminal. A traceback follows on separate lines.
    """

    def __init__(self, template: str = "%(asctime)s %(levelname)s %(name)s: %(message)s") -> None:
        super().__init__(template)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name that logging calls
        line = super().formatMessage(record)
        if line.isprintable():
            return line
        return "".join(
            each if each.isprintable() else each.encode("unicode_escape").decode() for each in line
        )


def formatter_of(log_format: LogFormat) -> dict[str, Any]:
    """Return the formatter, as `logging.config` takes it. Its class is imported when it is used."""
    name = "config.json_line.JsonLine" if log_format == "json" else "config.log_lines.TextLine"
    return {"()": name}


def logging_config(*, level: str, log_format: LogFormat) -> dict[str, Any]:
    """Return Django's LOGGING: everything goes to standard error."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": formatter_of(log_format)},
        "handlers": {
            "stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": [_in_one_line]},
        },
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django": {"handlers": [], "level": "WARNING", "propagate": True},
            "django.request": {"level": "ERROR"},
            "daphne": {"level": "WARNING"},
            "axes": {"level": "WARNING"},
            "httpx": {"level": "WARNING"},  # at INFO it has a line for each request to the login server
            "celery": {"level": "WARNING"},  # at INFO it has two lines for each tick
            "psycopg.pool": {"level": "ERROR"},  # a page that gets no connection reports that itself
        },
    }


def _in_one_line(record: logging.LogRecord) -> bool:
    """Drop the traceback of a refused request: the server is not at fault."""
    if record.name.startswith("django.security"):
        record.exc_info = None
    return True


class _Saying:
    """The format of the supervisor's lines. A line of text has only the message, without time and level."""

    formatter: logging.Formatter = TextLine("%(message)s")


def use_format(log_format: LogFormat) -> None:
    """Make `say` print lines in this format."""
    if log_format == "json":
        _Saying.formatter = import_module("config.json_line").JsonLine()


def say(text: str, *, level: int = logging.INFO) -> None:
    """Print one line of the supervisor on standard output. Only JSON lines show `level`."""
    record = logging.LogRecord("config.run", level, "", 0, text, None, None)
    sys.stdout.write(f"{_Saying.formatter.format(record)}\n")
    sys.stdout.flush()
