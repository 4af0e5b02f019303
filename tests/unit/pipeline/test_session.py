"""Where Spark runs, and which settings a session leaves to Spark's own configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.conf import BrokerSettings, SettingInvalid
from pipeline.session import names_in_spark_defaults


def test_the_names_of_settings_in_sparks_own_file_are_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    assert names_in_spark_defaults() == set()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert names_in_spark_defaults() == set()
    (tmp_path / "spark-defaults.conf").write_text(
        "# spark.comment 1\n! spark.comment 2\n\n  spark.cores.max\t4\nspark.a=b\nspark.b : c\nspark.empty\n"
    )
    assert names_in_spark_defaults() == {"spark.cores.max", "spark.a", "spark.b", "spark.empty"}


def test_the_setting_of_the_master_takes_the_address_of_a_cluster() -> None:
    for master in ("", "spark://a:7077,b:7077", "yarn", "k8s://https://host:443"):
        assert BrokerSettings.from_environment({"VELA_SPARK_MASTER": master}).spark_master == master
    with pytest.raises(SettingInvalid, match="VELA_SPARK_MASTER is 'host:7077': it takes spark://host:port"):
        BrokerSettings.from_environment({"VELA_SPARK_MASTER": "host:7077"})


def test_the_settings_do_not_show_the_executors_password() -> None:
    settings = BrokerSettings.from_environment({"VELA_SPARK_DATABASE_URL": "postgresql://u:hunter2@h/d"})
    assert settings.spark_database_url == "postgresql://u:hunter2@h/d"
    assert "hunter2" not in repr(settings)
