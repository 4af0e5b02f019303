"""Find the cause in an error of Spark, and say it in one line."""

from __future__ import annotations

import re
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from pipeline.errors import PipelineError, sentence_of

__all__ = ["SPARK_ERRORS", "failed", "reason_of"]

# PySpark raises py4j's error where it does not translate Java's.
SPARK_ERRORS: Final = (PySparkException, Py4JError)
# Spark's errors begin with the name of a condition.
_CONDITION: Final = re.compile(r"\[[A-Z][A-Z0-9_.]+\] [^\n]+")
_CALL: Final = "An error occurred while calling"  # py4j's first line; Java's own error is in the second
_MISSING_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
# The last line of a traceback in a worker's Python has the error.
_TRACEBACK: Final = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n)+(\S[^\n]*)")
_MOST_CHARACTERS: Final = 400


def reason_of(error: BaseException) -> str:
    """Return Spark's error in one line: the cause, not its consequences."""
    if missing := _MISSING_MODULE.search(str(error)):
        return (
            f"Spark's Python has no module {missing[1]}: install Vela's extra `pipeline` where the tasks run, or let"
            " PYSPARK_PYTHON name an interpreter that has it"
        )
    if raised := _TRACEBACK.findall(str(error)):
        return str(raised[-1])[:_MOST_CHARACTERS]
    found = _CONDITION.findall(str(error))
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith(_CALL):
        lines = [lines[1].removeprefix(": ")]
    line = found[-1] if found else lines[0] if lines else type(error).__name__
    return line.rstrip("; ")[:_MOST_CHARACTERS]


def failed(error: BaseException) -> PipelineError | None:
    """Return an error that `sentence_of` knows, such as the source's or the sink's, as a PipelineError; else None."""
    sentence = sentence_of(error)
    return None if sentence is None else PipelineError(sentence)
