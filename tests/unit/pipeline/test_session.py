"""What a session leaves to Spark's own file."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.session import names_in_spark_defaults


def test_spark_s_own_file_is_read_for_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    assert names_in_spark_defaults() == set()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert names_in_spark_defaults() == set()
    (tmp_path / "spark-defaults.conf").write_text(
        "# spark.comment 1\n! spark.comment 2\n\n  spark.cores.max\t4\nspark.a=b\nspark.b : c\nspark.empty\n"
    )
    assert names_in_spark_defaults() == {"spark.cores.max", "spark.a", "spark.b", "spark.empty"}
