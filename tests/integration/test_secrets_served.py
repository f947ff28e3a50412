"""A running service: no secret in its answers, its log, or what others see of its collector."""

import http.client
import json
from pathlib import Path

import pytest

from lagwatch.config.tokens import line
from tests.support.command import started
from tests.support.planted import CLUSTER, MARK, changed, planted, toml
from tests.support.waiting import eventually

TOKEN = f"{MARK}-token"
_SASL = f"LAGWATCH_CLUSTERS__{CLUSTER}__SASL__PASSWORD"
_FOREIGN = "AWS_SECRET_ACCESS_KEY"
_PATHS = (
    "/v3/config",
    *(
        f"/v3/config/{coordinator}{module}"
        for coordinator in ("cluster", "consumer", "storage", "evaluator", "notifier")
        for module in ("", f"/{CLUSTER}", "/default")
    ),
    f"/v3/kafka/{CLUSTER}",
    "/readyz",
    "/metrics",
    "/api/v1/alerts/policies",
    "/api/v1/alerts/incidents",
    "/openapi.json",
)


def configuration(folder: Path) -> Path:
    """Every secret there is, in a configuration that the service can start with."""
    tree = planted()
    # what the client library takes: it refuses names that it does not know
    properties = {
        "debug": "all",
        "sasl.oauthbearer.client.secret": f"{MARK}-client-secret",
        "sasl.oauthbearer.config": f"principal={MARK}-oauth",
        "ssl.keystore.password": f"{MARK}-keystore",
    }
    tree = changed(tree, ("clusters", CLUSTER, "client"), properties)
    tree = changed(tree, ("clusters", CLUSTER, "tls"), {})
    tree = changed(tree, ("history", "url"), str(folder / "history"))
    (folder / "tokens").write_text(line("alice", "admin", TOKEN))
    auth = {"tokens_file": str(folder / "tokens")}
    tree = changed(tree, ("server",), {"address": "127.0.0.1:0", "auth": auth})
    tree = changed(tree, ("log",), {"level": "trace", "format": "json"})
    file = folder / "lagwatch.toml"
    file.write_text(toml(tree), encoding="utf-8")
    return file


def answer(url: str, path: str, **headers: str) -> str:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return f"{response.getheaders()} {response.read().decode()}"
    finally:
        connection.close()


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def collectors(pid: int) -> list[int]:
    return [
        child
        for child in children(pid)
        if b"lagwatch.collector" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def events(log: Path) -> list[str]:
    lines = [line for line in log.read_text().splitlines() if line.endswith("}")]
    return [json.loads(line)["event"] for line in lines]


def test_a_running_service_shows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_SASL, f"{MARK}-environment")
    monkeypatch.setenv(_FOREIGN, f"{MARK}-foreign")
    log = tmp_path / "log"

    with started(log, "-c", str(configuration(tmp_path))) as (process, url):
        eventually(lambda: "librdkafka" in log.read_text(), "the client library writes its log")
        eventually(lambda: bool(collectors(process.pid)), "there is a collector")
        answers = [answer(url, path, Authorization=f"Bearer {TOKEN}") for path in _PATHS]
        answers += [
            answer(url, "/v3/config", Authorization=f"Bearer {MARK}-wrong"),
            answer(url, "/api/v1/session", Cookie=f"lagwatch_token={TOKEN}"),
        ]
        eventually(lambda: "poll_failed" in log.read_text(), "the broker is not reached")
        seen = [
            Path(f"/proc/{pid}/{what}").read_bytes().decode()
            for pid in children(process.pid)
            for what in ("environ", "cmdline")
        ]

    kept = {
        file.relative_to(tmp_path).as_posix(): file.read_bytes()
        for file in tmp_path.rglob("*")
        if file.is_file() and file.name != "lagwatch.toml"
    }
    assert len(seen) >= 2
    assert "PATH=" in seen[0]
    assert not [text for text in seen if MARK in text]
    assert not [text for text in answers if MARK in text]
    assert '"scope":"admin"' in answers[-1]
    assert {"log", "tokens", "lagwatch-alerts.sqlite"} < set(kept)
    assert not [name for name, text in kept.items() if MARK.encode() in text]
