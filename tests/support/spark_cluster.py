"""A real standalone Spark cluster, and a Spark Connect server, from the wheel alone."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pyspark

from lagwatch.java import cache_dir
from lagwatch.jobs.java import java_home
from tests.support.waiting import eventually

SPARK_HOME: Final = Path(pyspark.__file__).parent
_STARTS_S: Final = 90
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_CONNECT: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"


def environment(*, memory: str = "256m") -> Mapping[str, str]:
    """What Spark's own scripts need to know."""
    return {
        **os.environ,
        "JAVA_HOME": str(java_home(cache_dir())),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": memory,
        "PYSPARK_PYTHON": sys.executable,
    }


@contextmanager
def standalone(
    folder: Path, *, workers: int = 2, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """A master and workers of one core each on loopback; yields the master's URL."""
    with ExitStack() as servers:
        master = servers.enter_context(
            _server(
                [*_class(_MASTER), "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"],
                folder / "master.log",
                environment,
            )
        )
        url = master.waited(r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            work = folder / f"work-{number}"
            options = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g"]
            options += ["--work-dir", str(work), "--webui-port", "0"]
            worker = servers.enter_context(
                _server(
                    [*_class(_WORKER), *options, url], folder / f"worker-{number}.log", environment
                )
            )
            worker.waited("(Successfully registered)")
        yield url


@contextmanager
def connect_server(folder: Path, *, port: int) -> Iterator[str]:
    """A Spark Connect server of two local cores; yields its `sc://` URL."""
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--class", _CONNECT]
    properties = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
    }
    for name, value in properties.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--master", "local[2]", "spark-internal"]
    with _server(command, folder / "connect.log", environment(memory="1g")) as server:
        server.waited("(Spark Connect server started)")
        yield f"sc://127.0.0.1:{port}"


def _class(name: str) -> list[str]:
    return [str(SPARK_HOME / "bin" / "spark-class"), name]


class _Server:
    """A process of Spark and what it has said."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self._process = process
        self._log = log

    def waited(self, pattern: str) -> str:
        """The first group of the first match, once it has said it."""
        eventually(lambda: self._said(pattern) is not None, pattern, timeout_s=_STARTS_S)
        return self._said(pattern) or ""

    def _said(self, pattern: str) -> str | None:
        text = self._log.read_text(encoding="utf-8", errors="replace")
        if self._process.poll() is not None:
            raise AssertionError(f"it ended with {self._process.returncode}:\n{text[-3000:]}")
        found = re.search(pattern, text)
        return found[1] if found else None


@contextmanager
def _server(
    command: list[str], log: Path, variables: Mapping[str, str] | None
) -> Iterator[_Server]:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=variables or environment(), stdout=output, stderr=subprocess.STDOUT
        )
        try:
            yield _Server(process, log)
        finally:
            # the script has become the JVM: one process
            process.terminate()
            killer = threading.Timer(20, process.kill)
            killer.start()
            process.wait()
            killer.cancel()
