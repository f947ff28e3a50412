"""The real service as a process of its own, asked over HTTP."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lagwatch.kafka.embedded.ports import free_ports

_ANSWER_S = 30
_STOP_S = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A running `lagwatch serve` with one cluster."""

    process: subprocess.Popen[bytes]
    base: str
    cluster: str
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def get(self, path: str) -> Any:  # noqa: ANN401 JSON
        """The body of an answer of 200.

        Raises:
            urllib.error.HTTPError: another status.
        """
        with urllib.request.urlopen(self.base + path, timeout=_ANSWER_S) as answer:  # noqa: S310 loopback
            return json.load(answer)

    def wait_answering(self, within_s: float = 90) -> None:
        """Wait until HTTP is served at all."""
        deadline_s = time.monotonic() + within_s
        while True:
            try:
                self.get("/healthz")
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > deadline_s:
                    raise ChildProcessError(self.log.read_text()[-3000:]) from error
                time.sleep(0.05)  # noqa: TID251 polls a process of its own
            else:
                return

    def ready(self) -> bool:
        """Is the backlog read to its end?

        Raises:
            ChildProcessError: the service ended.
        """
        if self.process.poll() is not None:
            raise ChildProcessError(f"the service ended: {self.log.read_text()[-3000:]}")
        with contextlib.suppress(OSError):
            return bool(self.get(f"/readyz?cluster={self.cluster}")["ready"])
        return False

    def wait_ready(self, within_s: float = 60) -> None:
        deadline_s = time.monotonic() + within_s
        while not self.ready():
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"not ready within {within_s} s: {self.log.read_text()[-3000:]}")
            time.sleep(0.1)  # noqa: TID251 polls a process of its own

    def status(self, group: str) -> dict[str, Any] | None:
        """The group's verdict with all partitions; None while it is not known."""
        try:
            answer: dict[str, Any] = self.get(f"/v3/kafka/{self.cluster}/consumer/{group}/lag")
        except urllib.error.HTTPError as error:
            error.close()
            return None
        return answer["status"]

    def known(self, group: str) -> dict[str, Any]:
        """The same of a group that must be known."""
        status = self.status(group)
        assert status is not None, f"{group} is not known"
        return status

    def groups(self) -> list[str]:
        return list(self.get(f"/v3/kafka/{self.cluster}/consumer")["consumers"])

    def health(self) -> dict[str, Any]:
        return self.health_of(self.cluster)

    def health_of(self, cluster: str) -> dict[str, Any]:
        """A cluster's part of `/readyz`, ready or not."""
        try:
            answer = self.get("/readyz")
        except urllib.error.HTTPError as error:
            with error:
                answer = json.load(error)
        return answer["clusters"][cluster]


@contextlib.contextmanager
def serving(
    bootstrap: str,
    *,
    cluster: Mapping[str, object] = {},
    sections: str = "",
    level: str = "info",
    clock_ahead_s: int | Path = 0,
    most_files: int = 1024,
) -> Iterator[Served]:
    """Start the service on a free port; end it by its own process id.

    The clock of its processes is `clock_ahead_s` ahead of the machine's, or by as many seconds as
    such a file says at each moment; each may open `most_files`.
    """
    (port,) = free_ports(1)
    options = {"bootstrap": bootstrap, **cluster}
    with tempfile.TemporaryDirectory() as directory:
        configuration, log = Path(directory) / "lagwatch.toml", Path(directory) / "log"
        lines = "\n".join(f"{name} = {json.dumps(value)}" for name, value in options.items())
        configuration.write_text(
            f'[server]\naddress = "127.0.0.1:{port}"\n[log]\nlevel = "{level}"\n'
            f"{sections}\n[clusters.here]\n{lines}\n"
        )
        limited = ["sh", "-c", f'ulimit -n {most_files}; exec "$@"', "sh", sys.executable]
        command = [*limited, "-m", "lagwatch", "serve", "-c", str(configuration)]
        with log.open("wb") as output:
            # what it keeps on disk goes with the directory
            environment = _shifted(Path(directory), clock_ahead_s) if clock_ahead_s else None
            process = subprocess.Popen(command, stderr=output, cwd=directory, env=environment)
        served = Served(process=process, base=f"http://127.0.0.1:{port}", cluster="here", log=log)
        try:
            served.wait_answering()
            yield served
        except BaseException:
            sys.stderr.write(log.read_text()[-5000:])  # shown with the failure
            raise
        finally:
            process.terminate()
            try:
                process.wait(timeout=_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _shifted(directory: Path, ahead_s: int | Path) -> dict[str, str]:
    """An environment in which every Python process has another clock; collectors inherit it."""
    ahead = f"{ahead_s}" if isinstance(ahead_s, int) else f"int(open({str(ahead_s)!r}).read())"
    folder = directory / "clock"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import time\n"
        "_time_ns, _time = time.time_ns, time.time\n"
        f"time.time_ns = lambda: _time_ns() + {ahead} * 10**9\n"
        f"time.time = lambda: _time() + {ahead}\n"
    )
    return {**os.environ, "PYTHONPATH": str(folder)}
