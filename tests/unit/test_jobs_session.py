"""Which properties Spark is started with."""

import sys

import pytest
from typer.testing import CliRunner

from lagwatch.cli import app
from lagwatch.config.jobs import JobsSettings
from lagwatch.errors import JobError
from lagwatch.jobs.session import properties, start, workers_python

JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def test_what_is_configured_comes_before_what_the_jobs_choose() -> None:
    settings = JobsSettings(
        master="local[2]", driver_memory_mb=700, spark={"spark.sql.shuffle.partitions": "3"}
    )

    chosen = properties(settings, "report")

    assert chosen["spark.sql.shuffle.partitions"] == "3"
    assert chosen["spark.driver.memory"] == "700m"
    assert chosen["spark.sql.session.timeZone"] == "UTC"


def test_options_for_java_are_added_to_ours_which_keep_the_log_quiet() -> None:
    ours = properties(JobsSettings(), "backfill")[JAVA_OPTIONS]

    both = properties(JobsSettings(spark={JAVA_OPTIONS: "-Dkey=value"}), "backfill")[JAVA_OPTIONS]

    assert "log4j2" in ours
    assert both == f"{ours} -Dkey=value"


def test_java_of_short_jobs_is_started_for_little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)

    def options(job: str, **chosen: str) -> list[str]:
        spark = {JAVA_OPTIONS: chosen["java"]} if "java" in chosen else {}
        master = chosen.get("master", "local[2]")
        return properties(JobsSettings(master=master, spark=spark), job)[JAVA_OPTIONS].split()[1:]

    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    assert options("report") == options("rollup") == quick
    assert options("backfill") == []
    assert options("report", master="spark://host:7077") == []
    # Java takes the last of two levels, and refuses two collectors
    further = "-XX:TieredStopAtLevel=4 -XX:+UseG1GC"
    assert options("report", java=further) == [quick[0], *further.split()]

    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseZGC")

    assert options("report") == quick[:1]


@pytest.mark.parametrize(
    ("master", "loopback", "own_driver"),
    [("local[*]", True, True), ("spark://host:7077", False, True), ("sc://host", False, False)],
)
def test_only_a_spark_of_this_machine_stays_on_loopback(
    *, master: str, loopback: bool, own_driver: bool
) -> None:
    chosen = properties(JobsSettings(master=master), "rollup")

    assert (chosen.get("spark.driver.bindAddress") == "127.0.0.1") is loopback
    assert ("spark.driver.memory" in chosen) is own_driver


def test_workers_run_the_interpreter_that_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    archived = JobsSettings(spark={"spark.pyspark.python": "./environment/bin/python"})
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)

    assert workers_python(archived) == "./environment/bin/python"
    assert workers_python(JobsSettings()) == sys.executable

    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")

    assert workers_python(archived) == "./environment/bin/python"
    assert workers_python(JobsSettings()) == "/opt/python"


def test_yarn_needs_a_folder_of_hadoop_and_says_so_before_java_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(JobError, match="= yarn needs HADOOP_CONF_DIR or YARN") as error:
        start(JobsSettings(master="yarn"), name="rollup")

    assert not error.value.retryable


@pytest.mark.parametrize("master", ["local[x]", "local[0.5]", "mesos://host:5050", "yarn-client"])
def test_a_master_that_spark_does_not_have_is_refused_at_once(master: str) -> None:
    refused = CliRunner().invoke(app, ["rollup", "--store", "x", "--master", master])

    assert refused.exit_code == 2
    assert "is no master" in refused.output
