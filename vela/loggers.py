"""Logging options with the names of Apache's Python client. You can also configure `logging` yourself."""

from __future__ import annotations

import logging
import sys
from typing import Final

from vela.named_numbers import NamedNumber

__all__ = ["ConsoleLogger", "FileLogger", "LoggerLevel", "logger_of"]

_NAME: Final = "vela"
_FORMAT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class LoggerLevel(NamedNumber):
    """The lowest level that is logged."""

    Debug = 0
    Info = 1
    Warn = 2
    Error = 3


_LEVELS: Final = {
    LoggerLevel.Debug: logging.DEBUG,
    LoggerLevel.Info: logging.INFO,
    LoggerLevel.Warn: logging.WARNING,
    LoggerLevel.Error: logging.ERROR,
}


class ConsoleLogger:
    """Logs to standard output. It configures the logger `vela`, which all clients of the process share."""

    def __init__(self, log_level: LoggerLevel = LoggerLevel.Info) -> None:
        self.log_level = log_level

    def handler(self) -> logging.Handler:
        """Return the handler that writes the log."""
        return logging.StreamHandler(sys.stdout)


class FileLogger:
    """Appends the log to a file. It configures the logger `vela`, which all clients of the process share."""

    def __init__(self, log_level: LoggerLevel, log_file: str) -> None:
        self.log_level = log_level
        self.log_file = log_file

    def handler(self) -> logging.Handler:
        """Return the handler that writes the log. Raises OSError if the file cannot be opened."""
        return logging.FileHandler(self.log_file, encoding="utf-8")


def logger_of(given: logging.Logger | ConsoleLogger | FileLogger | None) -> logging.Logger:
    """Return a client's logger. A ConsoleLogger or FileLogger replaces that of an earlier client."""
    if isinstance(given, logging.Logger):
        return given
    logger = logging.getLogger(_NAME)
    if given is not None:
        handler = given.handler()
        handler.set_name(_NAME)
        handler.setFormatter(logging.Formatter(_FORMAT))
        for former in [each for each in logger.handlers if each.get_name() == _NAME]:
            logger.removeHandler(former)
            former.close()
        logger.addHandler(handler)
        logger.setLevel(_LEVELS[given.log_level])
    return logger
