"""What the supervisor says about a PostgreSQL that ended: the last reason in its log."""

from __future__ import annotations

from pathlib import Path

from config.run.supervisor import _last_words


def test_the_reason_is_the_last_fatal_line(tmp_path: Path) -> None:
    log = tmp_path / "postgresql.log"
    log.write_text(
        "LOG:  starting\nFATAL:  the database system is starting up\n"
        'PANIC:  could not write to file "pg_wal/xlogtemp.7": No space left on device\nLOG:  aborting\n'
    )
    assert _last_words(log) == ' (could not write to file "pg_wal/xlogtemp.7": No space left on device)'


def test_without_a_log_or_a_reason_nothing_is_said(tmp_path: Path) -> None:
    assert _last_words(tmp_path / "none.log") == ""
    quiet = tmp_path / "quiet.log"
    quiet.write_text("LOG:  shutting down\n")
    assert _last_words(quiet) == ""
