"""A real Prometheus Alertmanager on a free port, with a webhook of the test as its receiver."""

import json
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import eventually

_NAMES = ("prometheus-alertmanager", "alertmanager")


class RunningAlertmanager:
    """Where it listens."""

    def __init__(self, url: str) -> None:
        self.url = url

    def alerts(self) -> list[dict[str, Any]]:
        """The alerts it holds."""
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts", timeout=5) as answer:  # noqa: S310
            alerts: list[dict[str, Any]] = json.load(answer)
        return alerts

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=1):  # noqa: S310
                return True
        except OSError:
            return False


@contextmanager
def alertmanager(folder: Path, webhook: str) -> Iterator[RunningAlertmanager]:
    """Run it; skips the test where there is none."""
    binary = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if binary is None:
        pytest.skip("no Alertmanager here (Debian: apt-get install prometheus-alertmanager)")
    folder.mkdir(exist_ok=True)
    config = folder / "alertmanager.yml"
    config.write_text(
        "route: {receiver: test, group_by: ['...'], group_wait: 0s, group_interval: 1s,"
        " repeat_interval: 1h}\n"
        f"receivers: [{{name: test, webhook_configs: [{{url: '{webhook}', send_resolved: true}}]}}]"
        "\n",
        encoding="utf-8",
    )
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [
            *(binary, f"--config.file={config}", f"--storage.path={folder / 'data'}"),
            *(f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        running = RunningAlertmanager(f"http://127.0.0.1:{port}")
        eventually(running.ready, "Alertmanager to be ready")
        yield running
    finally:
        process.terminate()
        process.wait(10)
