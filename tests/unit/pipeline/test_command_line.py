"""`python -m pipeline`: a wrong number is named before anything starts."""

from __future__ import annotations

import pytest

from pipeline.__main__ import main
from pipeline.errors import OR_TWICE, SKIP_CORRUPT, DeduplicationOff, EntryUnreadable
from pipeline.source.bounds import require_stored
from pipeline.source.offsets import BEGINNING
from pipeline.source.options import ReadOptions
from tests.unit.pipeline.memory_log import MemoryIndex, memory_log

EXPORT = ("export", "--topic", "orders", "--url", "postgresql://u@127.0.0.1:1/d", "--to", "x")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--cores", "0"), "argument --cores: '0' is not a whole number from 1"),
        (("--cores", "two"), "argument --cores: 'two' is not a whole number from 1"),
        (("--read-bytes-per-s", "-1"), "argument --read-bytes-per-s"),
        (("--memory", "lots"), "argument --memory: 'lots' is not a size such as 512m or 2g"),
        (("--memory", "1024"), "argument --memory: '1024' is not a size"),
        (("--memory", "511m"), "argument --memory: '511m' is too little: Spark needs at least 512m"),
    ],
)
def test_a_wrong_number_is_named(
    given: tuple[str, str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*EXPORT, *given])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_a_java_that_is_killed_while_spark_starts_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("pipeline.java.require_java", lambda: None)
    monkeypatch.setattr("pipeline.session.spark_session", refuse)
    monkeypatch.setattr("pipeline.jobs.insights.run", lambda _request, _reporter, session: session())
    assert main(["insights", "--topic", "orders", "--url", "postgresql://u@127.0.0.1:1/d"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("Java ended while the job ran: perhaps")


@pytest.mark.parametrize(
    ("job", "advice"),
    [
        ("export --to x", "set option on_corrupt to skip"),
        ("replay --to x", "leave such entries out with starting_time and ending_time"),
        ("compact", "compact this topic with `vela compact`"),
    ],
)
def test_the_error_about_an_undecodable_entry_ends_with_the_jobs_own_advice(
    job: str, advice: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise EntryUnreadable(f"entry 1:2 cannot be read; {SKIP_CORRUPT}")

    monkeypatch.setattr(f"pipeline.jobs.{job.split()[0]}.run", fail)
    assert main([*job.split(), "--topic", "t", "--url", "postgresql://x"]) == 1
    said = capsys.readouterr().err
    assert ("entry 1:2 cannot be read; " in said, advice in said, "onCorrupt" in said) == (True, True, False)


def test_a_job_is_not_told_to_set_an_option_of_the_sink(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise DeduplicationOff(f"set its policy deduplication{OR_TWICE}. Its first rows are stored already")

    monkeypatch.setattr("pipeline.jobs.import_files.run", fail)
    assert main(["import", "--from", "x", "--topic", "t", "--url", "postgresql://x"]) == 1
    assert capsys.readouterr().err == "set its policy deduplication. Its first rows are stored already\n"


def test_a_job_is_not_told_to_set_an_option_of_the_data_source(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = memory_log(MemoryIndex(), [[(1, 10)]], first_ledger=5, messages_before=4)
    options = ReadOptions.parse({"topic": "t", "url": "postgresql://x"})
    monkeypatch.setattr("pipeline.jobs.compact.run", lambda *_: require_stored(log, BEGINNING, options))
    assert main(["compact", "--topic", "t", "--url", "postgresql://x"]) == 1
    said = capsys.readouterr().err
    assert (
        said == "t cannot be read from -1:-1 on: retention trimmed 4 messages after it; run the job again\n"
    )


def test_an_interrupted_job_ends_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pipeline.jobs.compact.run", interrupt)
    assert main(["compact", "--topic", "t", "--url", "postgresql://x"]) == 130
    assert capsys.readouterr().err == "interrupted\n"
