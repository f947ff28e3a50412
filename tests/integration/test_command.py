"""The command against a real broker: `serve`, and `status` by both ways of asking."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.command import started
from tests.support.kafka import commit, create_topic, produce, unique
from tests.support.waiting import eventually

COMMAND = (sys.executable, "-m", "lagwatch")
_DEADLINE_S = 60
_STOPS_WITHIN_S = 5


def lagwatch(*arguments: str, folder: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
        cwd=folder,
    )


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=_DEADLINE_S) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except OSError:
        return False


def test_one_look_at_a_broker_says_a_group_that_is_caught_up(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("caught-up")
    produce(kafka, topic, 10)
    commit(kafka, group, topic, 10)

    result = lagwatch(
        *("status", group, "--bootstrap", kafka.bootstrap_servers, "--json", "--for", "0")
    )

    assert result.returncode == 0, result.stderr
    (shown,) = json.loads(result.stdout)["groups"]
    assert (shown["cluster"], shown["status"], shown["total_lag"]) == ("local", "OK", 0)


def test_one_look_says_where_it_has_not_seen_enough(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("rests")
    produce(kafka, topic, 10)
    commit(kafka, group, topic, 4)

    result = lagwatch("status", group, "--bootstrap", kafka.bootstrap_servers, "--for", "2s")

    assert result.returncode == 3
    assert "not enough seen" in result.stdout


def test_one_look_finds_a_committed_offset_beyond_the_log_end(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("beyond")
    produce(kafka, topic, 10)
    commit(kafka, group, topic, 500)

    result = lagwatch("status", group, "--bootstrap", kafka.bootstrap_servers)

    assert result.returncode == 2, result.stdout
    assert "beyond the log end" in result.stdout


def test_a_broker_that_is_not_there_is_unknown_with_the_reason() -> None:
    result = lagwatch("status", "--bootstrap", "127.0.0.1:1", "--wait", "8")

    assert result.returncode == 3
    assert "refused" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_service_is_asked_and_stops_cleanly_on_sigterm(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic, group = create_topic(kafka), unique("served")
    produce(kafka, topic, 10)
    commit(kafka, group, topic, 10)
    flags = ("--bootstrap", kafka.bootstrap_servers, "--address", "127.0.0.1:0")

    with started(tmp_path / "log", *flags, "--cluster-name", "here") as (process, url):
        eventually(lambda: _ready(url), "the service is ready", timeout_s=_DEADLINE_S)
        result = lagwatch("status", group, "--url", url, "--cluster", "here", "--json")
        process.send_signal(signal.SIGTERM)
        code = process.wait(_STOPS_WITHIN_S)

    (shown,) = json.loads(result.stdout)["groups"]
    assert (result.returncode, shown["status"], shown["group"]) == (0, "OK", group)
    assert code == 0
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_ctrl_c_stops_the_service_cleanly(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    flags = ("--bootstrap", kafka.bootstrap_servers, "--address", "127.0.0.1:0")

    with started(tmp_path / "log", *flags) as (process, url):
        eventually(lambda: _ready(url), "the service is ready", timeout_s=_DEADLINE_S)
        os.kill(process.pid, signal.SIGINT)
        code = process.wait(_STOPS_WITHIN_S)

    assert code == 0
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_a_second_lagwatch_does_not_take_the_checkpoints_of_the_first(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    flags = ("--bootstrap", kafka.bootstrap_servers, "--address", "127.0.0.1:0")

    with started(tmp_path / "log", *flags):
        second = lagwatch("serve", *flags, folder=tmp_path)

    assert second.returncode != 0
    assert "checkpoint.path" in second.stderr
    assert "is used by another lagwatch that runs" in second.stderr
    assert "Traceback" not in second.stderr


def test_an_address_that_is_taken_is_reported_without_a_traceback(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    flags = ("--bootstrap", kafka.bootstrap_servers, "--address")

    with started(tmp_path / "log", *flags, "127.0.0.1:0") as (_, url):
        second = lagwatch("serve", *flags, url.removeprefix("http://"))

    assert second.returncode == 2
    assert "already in use" in second.stderr
    assert "Traceback" not in second.stderr
