"""Spark's errors become the cause in one line, or the sentence of the source or the sink."""

from __future__ import annotations

from pipeline.jobs.failures import failed, reason_of

JAVA = """An error occurred while calling o1.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file x.  SQLSTATE: KD001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:920)
Caused by: org.apache.spark.SparkException: [MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records [null].
"""


def test_the_cause_is_named_and_not_its_consequences() -> None:
    cause = "[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records [null]."
    assert reason_of(Exception(JAVA)) == cause
    assert reason_of(Exception("\n  first \nsecond")) == "first"
    assert reason_of(Exception()) == "Exception"
    assert reason_of(Exception("[X.Y] not a boolean. SQLSTATE: 42K09;\n'Filter 1")) == (
        "[X.Y] not a boolean. SQLSTATE: 42K09"
    )
    called = "An error occurred while calling None.SparkSession.\n: java.lang.X: stopped\n\tat"
    assert reason_of(Exception(called)) == "java.lang.X: stopped"
    assert len(reason_of(Exception("x" * 1000))) == 400


def test_an_error_in_a_workers_python_is_the_last_line_of_its_traceback() -> None:
    said = (
        "\n  An exception was thrown from the Python worker: Traceback (most recent call last):\n"
        '  File "/x/worker.py", line 9, in main\n    process()\n    ^^^^^^^^^\n'
        "AttributeError: 'NoneType' object has no attribute 'encode'\n"
    )
    assert reason_of(Exception(said)) == "AttributeError: 'NoneType' object has no attribute 'encode'"


def test_a_sentence_of_the_source_or_sink_is_kept() -> None:
    assert str(failed(Exception("…\npipeline.errors.BrokerUnavailable: cannot write\n"))) == "cannot write"
    assert failed(Exception(JAVA)) is None


def test_a_full_disk_is_named() -> None:
    full = (
        "An error occurred while calling o66.json.\n"
        ": org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/x.\n"
        "Caused by: java.io.IOException: No space left on device\n"
    )
    assert str(failed(Exception(full))).startswith("a disk is full: make room where the job writes")


def test_a_machine_that_is_too_busy_is_named() -> None:
    slow = (
        "An error occurred while calling o66.collectToPython.\n"
        ": org.apache.spark.SparkException: Python worker failed to connect back.\n"
        "Caused by: java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back\n"
    )
    assert str(failed(Exception(slow))).startswith(
        "Spark's Python did not start within ten seconds: the machine"
    )


def test_a_python_that_was_killed_while_it_started_is_named() -> None:
    killed = (
        "An error occurred while calling o48.collectToPython.\n"
        ": org.apache.spark.SparkException: EOFException occurred while reading the port number from pyspark.daemon's"
        " stdout and terminated with code: 137.\n"
    )
    assert str(failed(Exception(killed))).startswith(
        "Spark's Python was ended by SIGKILL while it started: perhaps"
    )


def test_a_package_that_executors_lack_is_named() -> None:
    error = Exception(
        "[PYTHON_DATA_SOURCE_ERROR] Failed to read: Traceback (most recent call last):\n"
        '  File "/x.zip/pipeline/database.py", line 9, in <module>\n    import psycopg\n'
        "ModuleNotFoundError: No module named 'psycopg'\n"
    )
    assert reason_of(error).startswith(
        "Spark's Python has no module psycopg: install Vela's extra `pipeline` where"
    )
