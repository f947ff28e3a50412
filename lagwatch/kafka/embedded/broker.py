"""One broker: its files, its storage, its JVM."""

import secrets
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from lagwatch.kafka.embedded.process import GuardedProcess, LogFile
from lagwatch.kafka.embedded.settings import SCRAM_MECHANISMS, EmbeddedKafkaError, Node

_FORMAT_TIMEOUT_S = 60
_STOP_TIMEOUT_S = 20.0
_META = "meta.properties"
_CHECKPOINT = "bootstrap.checkpoint"
# A broker that lives for a minute gains nothing from the second compiler: 2.1 s to readiness
# instead of 2.6 s, and half the CPU on the way.
_JVM_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
# The last two lines silence the listing of all 300 settings.
_LOGGING = (
    "showDateTime=true",
    "dateTimeFormat=HH:mm:ss.SSS",
    "log.org.apache.kafka.common.config=warn",
    "log.kafka.server.KafkaConfig=warn",
)


class PortTakenError(EmbeddedKafkaError):
    """Another process took a port between its choice and the broker's start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """What every broker of a cluster is started with."""

    java: Path
    jars: Path
    heap_mb: int

    def command(self, main_class: str, *arguments: str, heap_mb: int | None = None) -> list[str]:
        return [
            str(self.java),
            f"-Xmx{heap_mb or self.heap_mb}m",
            *_JVM_FLAGS,
            *(f"-Dorg.slf4j.simpleLogger.{option}" for option in _LOGGING),
            "-cp",
            f"{self.jars}/*",
            main_class,
            *arguments,
        ]


class Broker:
    """A broker that can be started, stopped, killed and started again."""

    def __init__(self, node: Node, launcher: Launcher, *, temporary: bool) -> None:
        self.node = node
        self._launcher = launcher
        self._doomed = node.directory if temporary else None
        self._log = LogFile(node.log_file)
        self._process: GuardedProcess | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the JVM; `None` when none was started or it was stopped."""
        return None if self._process is None else self._process.pid

    def configure(self, properties: str) -> None:
        """Write `server.properties`."""
        self.node.directory.mkdir(parents=True, exist_ok=True)
        self.node.properties_file.touch(mode=0o600)
        self.node.properties_file.write_text(properties, encoding="utf-8")

    @property
    def has_storage(self) -> bool:
        return (self._data / _META).exists()

    @property
    def checkpoint(self) -> bytes:
        """What the storage begins with; the same for every broker that is formatted alike."""
        return (self._data / _CHECKPOINT).read_bytes()

    def format(self, cluster_id: str, users: Mapping[str, str]) -> bool:
        """Make the storage by Kafka's own tool; False if that failed."""
        scram = [
            f"--add-scram={mechanism}=[name={name},password={password}]"
            for name, password in users.items()
            for mechanism in SCRAM_MECHANISMS
        ]
        config = str(self.node.properties_file)
        arguments = ["format", "-t", cluster_id, "-c", config, *scram]
        command = self._launcher.command("kafka.tools.StorageTool", *arguments, heap_mb=128)
        with self.node.log_file.open("a") as log:
            formatting = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - no shell
        return _succeeded(formatting)

    def format_as(self, cluster_id: str, checkpoint: bytes) -> None:
        """Make the storage as another broker's was made, which takes no JVM."""
        self._data.mkdir(parents=True)
        (self._data / _CHECKPOINT).write_bytes(checkpoint)
        (self._data / _META).write_text(
            f"version=1\ncluster.id={cluster_id}\nnode.id={self.node.node_id}\n"
            f"directory.id={random_uuid()}\n"
        )

    @property
    def _data(self) -> Path:
        return self.node.directory / "data"

    def start(self) -> None:
        """Start the JVM; does nothing when it runs."""
        if self._process is not None and self._process.running:
            return
        self.kill()  # releases the guard of a broker that ended by itself
        self._log.mark()
        self._process = GuardedProcess(
            self._launcher.command("kafka.Kafka", str(self.node.properties_file)),
            log=self.node.log_file,
            doomed=self._doomed,
        )

    def kill(self) -> None:
        """End the JVM at once."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def terminate(self) -> None:
        """Ask the JVM to shut down in good order."""
        if self._process is not None:
            self._process.terminate()

    def wait_end(self) -> None:
        """Wait for the end of a shutdown; one that takes too long is cut short."""
        if self._process is not None:
            self._process.wait(_STOP_TIMEOUT_S)
        self.kill()

    def stop(self) -> None:
        self.terminate()
        self.wait_end()

    def pause(self, delay_s: float) -> None:
        """Wait a little while the broker comes up.

        Raises:
            EmbeddedKafkaError: it ended instead.
        """
        if self._process is None or self._process.wait(delay_s):
            self._raise_dead()

    def account(self, what: str) -> str:
        """Return "Broker N" + `what` + what its log complains about."""
        said = self._log.complaints() or "(nothing but routine)\n"
        return f"Broker {self.node.node_id} {what}\nIts log says:\n{said}"

    def _raise_dead(self) -> NoReturn:
        if self._log.port_taken():
            raise PortTakenError(self.account("found a port taken"))
        raise EmbeddedKafkaError(self.account("ended instead of starting"))


def random_uuid() -> str:
    """An id as Kafka writes them."""
    return "L" + secrets.token_urlsafe(16)[1:]  # a leading "-" would be an option of its tools


def _succeeded(formatting: subprocess.Popen[bytes]) -> bool:
    try:
        return formatting.wait(_FORMAT_TIMEOUT_S) == 0
    except subprocess.TimeoutExpired:
        formatting.kill()
        formatting.wait()
        return False
