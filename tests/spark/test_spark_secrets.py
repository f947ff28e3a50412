"""Secrets of `[jobs.spark]` stay out of Java's command line and of Spark's event log."""

import json
import subprocess
import sys
from pathlib import Path

_MARK = "m4rk3d"
_SECRETS = {
    "spark.hadoop.fs.s3a.secret.key": f"{_MARK}-secret",
    "spark.hadoop.fs.s3a.access.key": f"{_MARK}-access",
    "spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net": f"{_MARK}-account",
    "spark.hadoop.fs.azure.sas.box.a": f"{_MARK}-sas",
    "spark.ssl.keyPassword": f"{_MARK}-ssl",
}
_DRIVER = """
import json, sys
from pathlib import Path
from lagwatch.config.jobs import JobsSettings
from lagwatch.jobs.jvm import running_jvm
from lagwatch.jobs.session import spark_session

settings = JobsSettings(master="local[1]", driver_memory_mb=512, spark=json.loads(sys.argv[1]))
with spark_session(settings, name="secrets") as spark:
    spark.range(3).count()
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    line = Path(f"/proc/{running_jvm().pid}/cmdline").read_text().replace("\\0", " ")
    print(json.dumps([line, hadoop.get("fs.s3a.secret.key")]))
"""


def test_secrets_are_neither_on_the_command_line_nor_in_the_event_log(tmp_path: Path) -> None:
    given = {
        **_SECRETS,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": tmp_path.as_uri(),
        "spark.eventLog.compress": "false",
    }

    done = subprocess.run(
        [sys.executable, "-c", _DRIVER, json.dumps(given)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    line, secret = json.loads(done.stdout.splitlines()[-1])
    logs = [file.read_text() for file in tmp_path.rglob("*") if file.is_file()]

    assert "-Xmx512m" in line
    assert _MARK not in line + done.stderr
    assert secret == f"{_MARK}-secret", "Spark has it all the same"
    assert any("SparkListenerEnvironmentUpdate" in log for log in logs)
    assert not any(_MARK in log for log in logs)
