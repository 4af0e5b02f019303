"""vela.loggers: Apache's ways of saying where the log goes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import _pulsar
import pytest

from vela.loggers import ConsoleLogger, FileLogger, LoggerLevel, logger_of


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """Restore the logger after each test, because all tests in the process share it."""
    logger = logging.getLogger("vela")
    level, handlers = logger.level, list(logger.handlers)
    yield
    for handler in [each for each in logger.handlers if each not in handlers]:
        logger.removeHandler(handler)
        handler.close()
    logger.setLevel(level)


def test_log_levels_have_apaches_numbers() -> None:
    theirs = {name: int(value) for name, value in _pulsar.LoggerLevel.__members__.items()}
    assert {level.name: int(level) for level in LoggerLevel} == theirs


def test_a_logger_of_the_application_is_used_unchanged() -> None:
    own = logging.getLogger("mine")
    assert logger_of(own) is own
    assert logger_of(None) is logging.getLogger("vela")


def test_a_console_logger_prints_its_level_and_above(capsys: pytest.CaptureFixture[str]) -> None:
    logger_of(ConsoleLogger(LoggerLevel.Warn))
    logging.getLogger("vela.aio.client").info("not this")
    logging.getLogger("vela.aio.client").warning("but this")
    out = capsys.readouterr().out
    assert "WARNING vela.aio.client: but this" in out
    assert "not this" not in out


def test_a_file_takes_the_place_of_the_console(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logger_of(ConsoleLogger())
    path = tmp_path / "client.log"
    logger_of(FileLogger(LoggerLevel.Info, str(path))).info("hello")
    assert "hello" in path.read_text()
    assert "hello" not in capsys.readouterr().out
