"""A real Prometheus, from the system's package, on the loopback."""

import json
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from lagwatch.kafka.embedded.ports import LOOPBACK, free_ports
from tests.support.waiting import eventually

_DEADLINE_S = 60


def program(name: str) -> str:
    """The path of a program; without it the test is skipped."""
    found = shutil.which(name)
    if found is None:
        package = "prometheus-alertmanager" if name == "amtool" else "prometheus"
        pytest.skip(f"{name} is not installed (Debian: apt-get install {package})")
    return found


class Prometheus:
    """A server that runs."""

    def __init__(self, url: str) -> None:
        self._url = url

    def query(self, expression: str, *, at_s: float | None = None) -> Sequence[Mapping[str, Any]]:
        """What an expression gives at an instant (Unix time), or now: vectors only."""
        when = {} if at_s is None else {"time": f"{at_s:.3f}"}
        return list(self._get("query", query=expression, **when)["result"])

    def answer(self, expression: str, *, at_s: float, over_s: float = 0) -> Mapping[str, Any]:
        """The answer to an instant query, or to one over the `over_s` seconds before `at_s`."""
        if not over_s:
            return dict(self._get("query", query=expression, time=f"{at_s:.3f}"))
        begin = f"{at_s - over_s:.3f}"
        end = f"{at_s:.3f}"
        found = self._get("query_range", query=expression, start=begin, end=end, step="1")
        return dict(found)

    def last_scrape_s(self) -> float:
        """Instant of the newest scrape whose samples are all stored (Unix time).

        A scrape that takes longer than its interval leaves nothing: the next one is waited for.
        """
        seen: list[Mapping[str, Any]] = []

        def scraped() -> bool:
            seen[:] = self.query("timestamp(lagwatch_build_info)")
            return bool(seen)

        eventually(scraped, "a scrape", timeout_s=_DEADLINE_S, why_not=self._why_not)
        return float(seen[0]["value"][1])

    def _why_not(self) -> str:
        return str([(each["scrapeUrl"], each["lastError"]) for each in self.targets()])

    def rules(self) -> Sequence[Mapping[str, Any]]:
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def targets(self) -> Sequence[Mapping[str, Any]]:
        return list(self._get("targets")["activeTargets"])

    def _get(self, what: str, **parameters: str) -> Any:  # noqa: ANN401 - is JSON
        url = f"{self._url}/api/v1/{what}?{urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=_DEADLINE_S) as answer:  # noqa: S310
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=5) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def scraping(target: str, folder: Path, *, rules: Path) -> Iterator[Prometheus]:
    """A Prometheus that scrapes `target` (host:port) every second under the job lagwatch."""
    binary = program("prometheus")
    (port,) = free_ports(1)
    configuration = folder / "prometheus.yaml"
    configuration.write_text(
        yaml.safe_dump(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(rules)],
                "scrape_configs": [
                    {"job_name": "lagwatch", "static_configs": [{"targets": [target]}]}
                ],
            }
        )
    )
    command = (
        binary,
        f"--config.file={configuration}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={LOOPBACK}:{port}",
        "--log.level=warn",
    )
    log = folder / "prometheus.log"
    with log.open("wb") as stderr, subprocess.Popen(command, stderr=stderr) as process:
        try:
            server = Prometheus(f"http://{LOOPBACK}:{port}")
            eventually(
                lambda: process.poll() is not None or server.ready(),
                "Prometheus is ready",
                timeout_s=_DEADLINE_S,
            )
            assert process.poll() is None, log.read_text()
            yield server
        finally:
            process.terminate()
            try:
                process.wait(_DEADLINE_S)
            finally:
                process.kill()
