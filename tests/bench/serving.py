"""The real service as a process of its own, watched from outside."""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.bench.usage import cpu_time, rss_bytes

READY_WITHIN_S = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A running `lagwatch serve`."""

    pid: int
    base: str

    def get(self, path: str) -> Any:  # noqa: ANN401 JSON
        with urllib.request.urlopen(self.base + path, timeout=30) as answer:  # noqa: S310 loopback
            return json.load(answer)


@contextlib.contextmanager
def serving(kafka: EmbeddedKafka, port: int, **cluster: object) -> Iterator[Served]:
    """Start the service on the broker; ends it by its own process id."""
    options = {"bootstrap": kafka.bootstrap_servers} | cluster
    with tempfile.TemporaryDirectory() as directory:
        configuration = Path(directory) / "lagwatch.toml"
        lines = "\n".join(f"{name} = {json.dumps(value)}" for name, value in options.items())
        configuration.write_text(
            f'[server]\naddress = "127.0.0.1:{port}"\n[log]\nlevel = "warning"\n'
            f"[clusters.bench]\n{lines}\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-m", "lagwatch", "serve", "-c", str(configuration)]
        )
        try:
            yield Served(pid=process.pid, base=f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_ready(served: Served) -> None:
    """Wait until the backlog is read to its end."""
    deadline_s = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline_s:
        with contextlib.suppress(OSError):
            served.get("/readyz")
            return
        if not Path(f"/proc/{served.pid}/task").exists() or _is_zombie(served.pid):
            raise ChildProcessError("the service ended before it was ready")
        time.sleep(0.2)
    raise TimeoutError(f"not ready within {READY_WITHIN_S} s: {served.base}/readyz")


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the service and its collectors took until they were ready."""

    cpu_s: float
    rss_bytes: int
    rows: int


def cost_until_ready(kafka: EmbeddedKafka, port: int, **cluster: object) -> Cost:
    """Run the service until it is ready and has judged everything; then stop it."""
    with serving(kafka, port, **cluster) as served:
        with cpu_time(served.pid) as spent:
            wait_ready(served)
        # one more round, so that the memory of the snapshots is in the figure
        time.sleep(3)
        groups = served.get("/v3/kafka/bench/consumer")["consumers"]
        rows = sum(
            served.get(f"/v3/kafka/bench/consumer/{group}/status")["status"]["partition_count"]
            for group in groups[:: max(1, len(groups) // 10)]
        )
        sampled = len(groups[:: max(1, len(groups) // 10)])
        return Cost(
            cpu_s=spent.seconds,
            rss_bytes=rss_bytes(served.pid),
            rows=rows * len(groups) // max(1, sampled),
        )
