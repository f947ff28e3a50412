"""Starts Spark as the jobs need it: in this process, on a cluster, or through Spark Connect."""

import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

from lagwatch.config.jobs import JobsSettings
from lagwatch.config.secret import SECRET_NAME, Properties
from lagwatch.errors import JobError
from lagwatch.java import cache_dir
from lagwatch.jobs.faults import translated
from lagwatch.jobs.java import java_home
from lagwatch.jobs.jvm import guarded_jvm, running_jvm
from lagwatch.jobs.lock import Held
from lagwatch.jobs.package import SUBMITTED, write_package
from lagwatch.jobs.temp_folder import temp_folder

_ALWAYS: Final[Mapping[str, str]] = {
    # instants are epoch milliseconds; whatever Spark itself makes of time is UTC
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # a cluster called 007 is not a number
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # a rerun overwrites exactly its own partitions
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.adaptive.enabled": "true",
}
_OWN: Final[Mapping[str, str]] = {
    # of a driver in this process
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # its own rule lets the keys of some stores into event logs and pages
    "spark.redaction.regex": f"(?i){SECRET_NAME.pattern}",
}
_LOCAL: Final[Mapping[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
}
_YARN: Final = "yarn"
_YARN_FOLDERS: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_JAVA_ENDED: Final = "JAVA_GATEWAY_EXITED"
_SHORT: Final = ("rollup", "report")
"""Jobs whose Java does little: Python computes the roll-ups, and a report reads roll-ups."""
_QUICK: Final = "-XX:TieredStopAtLevel=1"
"""Java's second compiler takes a quarter of a nightly run's CPU time, and does not win it back."""
_QUICK_COLLECTOR: Final = "-XX:+UseSerialGC"
_COLLECTOR: Final = re.compile(r"-XX:\+Use\w+GC\b")
_JAVA_READS: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Variables of the environment from which Java takes further options."""
_PORTS: Final[Mapping[str, int]] = {"sc": 15002, "spark": 7077}
"""Time for a server to answer before Spark is started."""
_ANSWERS_S: Final = 10
_PYTHON: Final = "spark.pyspark.python"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
PACKAGE: Final = "lagwatch-jobs.zip"
_LOG: Final = Path(__file__).with_name("log4j2.properties")


@contextmanager
def spark_session(
    settings: JobsSettings, *, name: str, lock: Held | None = None
) -> Iterator[SparkSession]:
    """A session as configured, stopped at the end; one that runs already (spark-submit) is taken.

    A JVM that is started for it ends when this process does, and before `lock` is free.

    Raises:
        JobError: Spark could not be started or reached, or a task failed; the text says why.
    """
    running = SparkSession.getActiveSession()
    with translated(), temp_folder() as folder:
        if running is not None:
            yield running
            return
        spark = start(settings, name=name, folder=folder, lock=lock)
        try:
            yield spark
        finally:
            spark.stop()
            if (jvm := running_jvm()) is not None:
                jvm.idle()


def start(
    settings: JobsSettings, *, name: str, folder: Path | None = None, lock: Held | None = None
) -> SparkSession:
    """A new session; the caller stops it.

    `folder` is where the package for other machines is put; a Spark of this machine needs none.

    Raises:
        JobError: there is no Java, or Spark cannot be started or reached.
    """
    if SUBMITTED not in os.environ:
        _require_answer(settings)
    builder = SparkSession.builder.appName(f"lagwatch {name}")
    if SUBMITTED in os.environ:  # spark-submit has started Spark, and says where it runs
        chosen = {**_ALWAYS, **settings.spark}
    else:
        chosen = dict(properties(settings, name))
        builder = _addressed(builder, settings)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    try:
        if SUBMITTED not in os.environ and not _is_connect(settings):
            conf = SparkConf().setAll(list(chosen.items())).setAppName(f"lagwatch {name}")
            conf = conf.setMaster(settings.master.get_secret_value())
            # the builder takes the context that is there
            SparkContext(conf=conf, gateway=guarded_jvm(_without_secrets(conf), lock).gateway)
        spark = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError, RuntimeError) as error:
        raise _not_started(settings, error) from error
    if folder is not None and SUBMITTED not in os.environ and not is_local(settings):
        spark.addArtifacts(str(write_package(folder / PACKAGE)), pyfile=True)
    return spark


def _without_secrets(conf: SparkConf) -> SparkConf:
    """What Java is started with: anyone on the machine may read its command line.

    The rest is handed to the running Java. What Java itself must know when it starts, as a `-D`
    with a password, is there all the same.
    """
    pairs = [
        (name, value)
        for name, value in conf.getAll()
        if name == _JAVA_OPTIONS or Properties.shown_value(name, value) == value
    ]
    return SparkConf(loadDefaults=False).setAll(pairs)


def _require_answer(settings: JobsSettings) -> None:
    """Find out first what Spark itself would say late, or in many lines.

    It would try for minutes to connect to a server's port.
    """
    master = settings.master.get_secret_value()
    if master == _YARN and not any(map(os.environ.get, _YARN_FOLDERS)):
        message = (
            f"jobs.master = {_YARN} needs {' or '.join(_YARN_FOLDERS)}: set it to the folder of "
            "the cluster's Hadoop configuration."
        )
        raise JobError(kind="input", message=message, retryable=False)
    scheme, _, rest = master.partition("://")
    if scheme not in _PORTS:
        return
    hosts = rest.partition("/")[0].partition(";")[0].split(",")
    problems = [_problem(host, _PORTS[scheme]) for host in hosts]
    if None not in problems:
        raise _not_started(settings, problems[0])


def _problem(host: str, default_port: int) -> OSError | None:
    """Why a server cannot be reached; None when it can."""
    address = urlsplit(f"//{host}")
    try:
        place = (address.hostname or "", address.port or default_port)
        socket.create_connection(place, _ANSWERS_S).close()
    except OSError as error:
        return error
    return None


def _not_started(settings: JobsSettings, error: Exception | None) -> JobError:
    master = settings.master
    # Spark may quote the URL, with the token of Spark Connect
    reason = _reason(error).replace(master.get_secret_value(), str(master))
    return JobError(
        kind="spark",
        message=f"Spark did not start: jobs.master = {master}: {reason}. Check jobs.master, or "
        "--master, and that its address answers.",
        retryable=True,
    )


def _reason(error: Exception | None) -> str:
    """What Spark says, without its stack."""
    if isinstance(error, PySparkRuntimeError) and error.getCondition() == _JAVA_ENDED:
        return "Spark's Java ended at once; what it said is above"
    if not isinstance(error, Py4JJavaError):
        return str(error)
    java = error.java_exception
    while (cause := java.getCause()) is not None:
        java = cause
    return str(java.getMessage() or java.toString()).partition("\n")[0]


def is_local(settings: JobsSettings) -> bool:
    """Does Spark run in this process and on this machine alone?"""
    return str(settings.master).startswith("local")


def _is_connect(settings: JobsSettings) -> bool:
    return str(settings.master).startswith("sc://")


def _addressed(builder: SparkSession.Builder, settings: JobsSettings) -> SparkSession.Builder:
    # PySpark reads only the variable, and only spark-submit makes it of the property
    os.environ["PYSPARK_PYTHON"] = workers_python(settings)
    if _is_connect(settings):
        return builder.remote(settings.master.get_secret_value())
    os.environ["JAVA_HOME"] = str(java_home(cache_dir()))
    return builder.master(settings.master.get_secret_value())


def workers_python(settings: JobsSettings) -> str:
    """The interpreter of the workers: as configured, else this one, not the first of their path."""
    return settings.spark.get(_PYTHON) or os.environ.get("PYSPARK_PYTHON", sys.executable)


def properties(settings: JobsSettings, name: str) -> Mapping[str, str]:
    """Spark's properties: what the job of this name needs, then what the configuration says."""
    chosen = dict(_ALWAYS)
    if _is_connect(settings):
        return {**chosen, **settings.spark}
    chosen |= _OWN
    chosen["spark.driver.memory"] = f"{settings.driver_memory_mb}m"
    if is_local(settings):
        chosen |= _LOCAL
    chosen.update(settings.spark)
    options = [f"-Dlog4j2.configurationFile={_LOG.as_uri()}"]
    further = settings.spark.get(_JAVA_OPTIONS, "")
    if is_local(settings) and name in _SHORT:
        options.append(_QUICK)
        # Java refuses to start with two collectors; of other options it takes the last
        chosen_elsewhere = " ".join(
            [further, *(os.environ.get(variable, "") for variable in _JAVA_READS)]
        )
        options += [] if _COLLECTOR.search(chosen_elsewhere) else [_QUICK_COLLECTOR]
    chosen[_JAVA_OPTIONS] = " ".join([*options, further]).strip()
    return chosen
