"""A real Elasticsearch on this machine, for tests: one node from the published jars, on loopback.

It has neither security nor any module beside the HTTP transport: whatever works here needs no
licence and no plug-in. It ends with the process that started it, however that ends.
"""

import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Self

from elasticsearch import ApiError, Elasticsearch, TransportError
from py4j.protocol import Py4JError

from lagwatch.java import find_java
from lagwatch.kafka.embedded.jars import JarSet, ensure_jars
from lagwatch.kafka.embedded.ports import LOOPBACK, free_ports
from lagwatch.kafka.embedded.process import GuardedProcess
from lagwatch.kafka.embedded.settings import EmbeddedKafkaError
from tests.support.elasticsearch_launch import VERSION, Layout, command, gateway_of, start_node
from tests.support.waiting import eventually

OLDEST_JAVA = 21
"""Elasticsearch 9 is compiled for Java 21."""

JARS = JarSet(
    title=f"Elasticsearch {VERSION}",
    lock_file=Path(__file__).with_name(f"elasticsearch-{VERSION}.lock"),
)

_HEAP_MB = 512
_ANSWER_TIMEOUT_S = 30.0
_ATTEMPTS = 3


class EmbeddedElasticsearch:
    """One node; use it as a context manager. Not for several threads at once."""

    def __init__(self, *, start_timeout_s: float = 90.0) -> None:
        self._start_timeout_s = start_timeout_s
        self._base: Path | None = None
        self._port = 0
        self._process: GuardedProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._port}"

    @property
    def data(self) -> Path:
        """Where the node keeps its indices: `indices/UUID/SHARD/index`."""
        assert self._base is not None, "the node does not run: call start() first"
        return self._base / "node" / "data"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the node does not run: call start() first"
        return self._process.pid

    def client(self) -> Elasticsearch:
        """A client of the tests' own, straight to the node; the caller closes it."""
        return Elasticsearch(self.url, request_timeout=_ANSWER_TIMEOUT_S)

    def start(self) -> None:
        """Start the node and wait until it answers; after `kill` with the same port and data.

        Raises:
            MissingPartError: no Java, or no jars and no way to get them.
            EmbeddedKafkaError: it does not come up; the text ends with its log.
        """
        java, jars = (
            find_java(OLDEST_JAVA, server="embedded Elasticsearch"),
            ensure_jars(None, JARS),
        )
        if self._base is None:
            self._base = Path(tempfile.mkdtemp(prefix="lagwatch-elasticsearch-"))
        try:
            for attempt in range(1, _ATTEMPTS + 1):
                self._port = self._port or free_ports(1)[0]
                if self._started(java, jars, last=attempt == _ATTEMPTS):
                    return
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the node and remove its files. Does nothing when there is none."""
        self.kill()
        if self._base is not None:
            shutil.rmtree(self._base, ignore_errors=True)
        self._base, self._port = None, 0

    def kill(self) -> None:
        """End the node at once (SIGKILL); its data stay for the next `start`."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def pause(self) -> None:
        """Let the node hang (SIGSTOP): connections are still accepted, nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused node go on."""
        os.kill(self.pid, signal.SIGCONT)

    def _started(self, java: Path, jars: Path, *, last: bool) -> bool:
        """Start the node once; False when its port was taken meanwhile and another can be tried."""
        assert self._base is not None
        layout = Layout(self._base / "node")  # alone in its parent, which goes with it
        layout.make(jars)
        layout.log_file.unlink(missing_ok=True)
        launch = command(java, jars, layout, heap_mb=_HEAP_MB)
        self._process = GuardedProcess(launch, log=layout.log_file, doomed=layout.directory)
        try:
            eventually(
                lambda: gateway_of(_text(layout.log_file)) is not None or not self._running,
                "the JVM's gateway",
                timeout_s=self._start_timeout_s,
            )
            gateway = gateway_of(_text(layout.log_file))
            assert gateway is not None, "the JVM ended"
            start_node(layout, gateway, self._settings(layout))
        except (Py4JError, AssertionError) as error:
            reason = str(error)  # Java is asked for it
            self.kill()
            log = _text(layout.log_file)
            if "Address already in use" in log and not last:
                self._port = 0
                return False
            raise EmbeddedKafkaError(f"Elasticsearch did not start: {reason}\n{log}") from error
        self._wait_ready()
        return True

    @property
    def _running(self) -> bool:
        return self._process is not None and self._process.running

    def _wait_ready(self) -> None:
        deadline_s = time.monotonic() + self._start_timeout_s
        with self.client() as client:

            def answers() -> bool:
                try:
                    health = client.cluster.health(wait_for_status="yellow", timeout="1s")
                except (ApiError, TransportError):
                    return False
                return not health["timed_out"]

            eventually(answers, "Elasticsearch", timeout_s=deadline_s - time.monotonic())

    def _settings(self, layout: Layout) -> dict[str, str]:
        return {
            "path.home": str(layout.directory),
            "path.data": str(layout.directory / "data"),
            "path.logs": str(layout.directory / "logs"),
            "cluster.name": "lagwatch-tests",
            "node.name": "node-1",
            "discovery.type": "single-node",
            "network.host": LOOPBACK,
            "http.port": str(self._port),
            "transport.port": "0",
            # the serial collector lets garbage lie, which must not count as use
            "indices.breaker.total.use_real_memory": "false",
            # tests must not depend on how full this machine's disk is
            "cluster.routing.allocation.disk.threshold_enabled": "false",
        }


def _text(log_file: Path) -> str:
    return log_file.read_text(encoding="utf-8", errors="replace") if log_file.exists() else ""
