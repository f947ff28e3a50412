"""Nothing incomplete or stale is shown as measured: a broker freezes, a collector dies."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch_api.v1.fleet import COLUMNS
from tests.support.browser import browsing
from tests.support.kafka import (
    Transactions,
    commit,
    create_topic,
    neighbours,
    produce,
    unique,
)
from tests.support.served import Served, serving
from tests.support.traffic import committing, running
from tests.support.waiting import eventually

pytestmark = pytest.mark.minutes

QUICK = {"log_end_interval_s": 1, "group_interval_s": 2}
_SECTIONS = "[evaluator]\ninterval_s = 0.5\n[history]\ninterval_s = 1\nflush_s = 1\n"
_SUMMARY = "#troubles summary"
_NOWHERE = '[clusters.nowhere]\nbootstrap = ["127.0.0.1:1"]\n'


def _readyz(served: Served, query: str = "") -> tuple[int, dict]:
    try:
        with urllib.request.urlopen(f"{served.base}/readyz{query}", timeout=30) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def _metrics(served: Served, name: str) -> dict[str, float]:
    """Value by labels."""
    with urllib.request.urlopen(f"{served.base}/metrics", timeout=30) as answer:  # noqa: S310
        lines = answer.read().decode().splitlines()
    found = [line.rsplit(" ", 1) for line in lines if line.startswith(f"{name}{{")]
    return {labels[len(name) :]: float(value) for labels, value in found}


@contextmanager
def _frozen(kafka: EmbeddedKafka) -> Iterator[None]:
    (pid,) = kafka.pids
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _recordings(served: Served) -> list[tuple[str, str]]:
    path = f"/api/v1/clusters/{served.cluster}/events?fields=event,after,detail"
    events = served.get(path)["points"]
    return [
        (event["after"], event["detail"] or "")
        for event in events
        if event["event"] == "recording" and event["after"] in ("dropped", "resumed")
    ]


@pytest.mark.timeout(300)
def test_a_broker_that_hangs_makes_everything_stale_and_history_says_so(
    own_kafka: EmbeddedKafka,
) -> None:
    topic, group = create_topic(own_kafka), unique("calm")
    produce(own_kafka, topic, 10)
    commit(own_kafka, group, topic, 10)

    with serving(own_kafka.bootstrap_servers, cluster=QUICK, sections=_SECTIONS) as served:
        served.wait_ready()
        eventually(lambda: served.known(group) is not None, "the group is known")
        fresh = served.known(group)
        with _frozen(own_kafka):
            eventually(lambda: served.health()["data_age_s"] > 60, "60 s", timeout_s=120)
            code, _ = _readyz(served)
            health, stale = served.health(), served.known(group)
            fleet = served.get("/api/v1/fleet")["clusters"][0]
            ready = _metrics(served, "lagwatch_cluster_ready")
            age = _metrics(served, "lagwatch_data_age_seconds")
            during = _recordings(served)
            look = subprocess.run(
                [sys.executable, "-m", "lagwatch", "status", "--url", served.base],
                capture_output=True,
                text=True,
                check=False,
            )
        eventually(lambda: served.health()["ready"], "fresh again", timeout_s=60)
        eventually(lambda: len(_recordings(served)) == 2, "the gap is reported", timeout_s=60)
        after = _recordings(served)

    assert (fresh["stale"], fresh["data_age_s"] < 15) == (False, True)
    assert (code, health["ready"], health["stale"]) == (503, False, True)
    assert health["reason"] != ""
    assert stale["stale"] is True
    assert stale["data_age_s"] > 50
    assert (fleet["ready"], fleet["stale"]) == (False, True)
    assert {row[COLUMNS.index("stale")] for row in fleet["rows"]} == {True}
    assert ready == {'{cluster="here"}': 0}
    assert age['{cluster="here"}'] > 60
    assert look.returncode == 3
    assert " old: " in look.stderr
    assert during == []
    assert [word for word, _ in after] == ["dropped", "resumed"]
    assert all(reason for _, reason in after)


@pytest.mark.timeout(300)
def test_a_collector_that_says_nothing_for_35_s_is_stale(own_kafka: EmbeddedKafka) -> None:
    with serving(own_kafka.bootstrap_servers, cluster=QUICK, sections=_SECTIONS) as served:
        served.wait_ready()
        (child,) = _children(served.pid)
        os.kill(child, signal.SIGSTOP)
        try:
            eventually(lambda: served.health()["data_age_s"] > 35, "35 s", timeout_s=90)
            health = served.health()
        finally:
            os.kill(child, signal.SIGCONT)
        eventually(lambda: served.health()["ready"], "fresh again", timeout_s=60)

    assert (health["ready"], health["stale"]) == (False, True)
    assert "the last report came" in health["reason"]


def test_a_cluster_out_of_reach_leaves_the_other_in_service(kafka: EmbeddedKafka) -> None:
    with serving(kafka.bootstrap_servers, cluster=QUICK, sections=_NOWHERE) as served:
        served.wait_ready()
        whole, reached, other = (
            _readyz(served),
            _readyz(served, "?cluster=here"),
            _readyz(served, "?cluster=nowhere"),
        )
        groups = served.get("/v3/kafka/nowhere/consumer")
        age = _metrics(served, "lagwatch_data_age_seconds")
        lags = _metrics(served, "lagwatch_group_status")

    assert whole[0] == reached[0] == 200
    assert other[0] == 503
    nowhere = other[1]["clusters"]["nowhere"]
    assert nowhere["ready"] is False
    assert nowhere["reason"] != ""
    assert groups["consumers"] == []
    assert age['{cluster="nowhere"}'] > 0
    assert not any("nowhere" in labels for labels in lags)


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:  # noqa: PTH123
        return [int(word) for word in file.read().split()]


@pytest.mark.timeout(300)
def test_the_page_names_in_one_line_the_clusters_without_fresh_data(
    own_kafka: EmbeddedKafka,
) -> None:
    topic, group = create_topic(own_kafka), unique("shown")
    produce(own_kafka, topic, 10)
    commit(own_kafka, group, topic, 10)
    pages = {}

    with (
        serving(
            own_kafka.bootstrap_servers, cluster=QUICK, sections=_SECTIONS + _NOWHERE
        ) as served,
        browsing() as browser,
    ):
        served.wait_ready()
        eventually(lambda: served.known(group) is not None, "the group is known")
        with _frozen(own_kafka):
            eventually(lambda: served.health()["stale"], "stale", timeout_s=60)
            for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)):
                browser.look(width, 800, scheme)
                browser.open(served.base)
                eventually(lambda: "2 clusters" in browser.text(_SUMMARY), "both are named")
                said = browser.text(_SUMMARY)
                browser.click(_SUMMARY)
                seen = said, browser.texts("#troubles li"), browser.barriers()
                pages[scheme, width] = (*seen, browser.run("return document.body.scrollWidth"))
            browser.open(f"{served.base}/?group={group}&of=here")
            eventually(lambda: "s old" in browser.text("#g-old"), "the group's page says so")
        eventually(
            lambda: browser.text(_SUMMARY).startswith("nowhere: "), "fresh again", timeout_s=60
        )

    for (_, width), (said, details, barriers, shown) in pages.items():
        assert said.startswith("2 clusters without fresh data: here (")
        assert "nowhere (unreachable since lagwatch started at " in said
        assert any("nothing listens at 127.0.0.1:1" in line for line in details)
        assert barriers == []
        assert shown <= width


@pytest.mark.timeout(300)
def test_a_cluster_that_is_away_after_a_restart_is_not_said_to_have_been_away_before(
    own_kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    kept = f'[checkpoint]\npath = "{tmp_path}"\n'
    with serving(own_kafka.bootstrap_servers, cluster=QUICK, sections=kept) as served:
        served.wait_ready()
        (whole,) = served.get("/api/v1/fleet")["clusters"]

    with (
        _frozen(own_kafka),
        serving(own_kafka.bootstrap_servers, cluster=QUICK, sections=kept) as served,
        browsing() as browser,
    ):
        eventually(lambda: served.get("/api/v1/fleet")["clusters"][0]["unreachable"], "it is away")
        (away,) = served.get("/api/v1/fleet")["clusters"]
        browser.open(served.base)
        eventually(lambda: browser.text(_SUMMARY) != "", "the page says so")
        said = browser.text(_SUMMARY)
        browser.click(_SUMMARY)
        (details,) = browser.texts("#troubles section:first-child li:first-child")

    assert whole["began_ms"] is None
    assert away["since_ms"] < away["began_ms"]
    assert "unreachable since lagwatch started at " in said
    assert ", its last data before are of " in details
    assert "no data since" not in said


def test_a_short_look_says_ok_only_of_what_it_saw(kafka: EmbeddedKafka) -> None:
    pytest.importorskip("kafka", reason="kafka-python names the transactions")
    topic = create_topic(kafka)
    done, rests, moves = unique("done"), unique("rests"), unique("moves")
    produce(kafka, topic, 100)
    commit(kafka, done, topic, 100)
    commit(kafka, rests, topic, 40)
    found = {}
    # how long it waits the broker says, if kafka-python is there to ask
    held, waits, transactions = create_topic(kafka), unique("waits"), Transactions(kafka)
    produce(kafka, held, 10)
    transactions.write(held, 2)
    commit(kafka, waits, held, 10)
    for mode in ("offsets-topic", "admin"):
        found[mode, waits] = _look(kafka, mode, waits)
    transactions.abort()
    for mode in ("offsets-topic", "admin"):
        with running(committing(kafka, moves, topic, lambda number: number % 99, every_s=0.5)):
            for group in (done, rests, moves):
                found[mode, group] = _look(kafka, mode, group)

    for mode in ("offsets-topic", "admin"):
        assert found[mode, done] == found[mode, waits] == (0, "OK", "")
        assert found[mode, rests] == (3, "UNKNOWN", "not enough seen")
        assert found[mode, moves] == (0, "OK", "")


def test_a_short_look_does_not_take_a_commit_from_behind_an_open_transaction_for_progress(
    kafka: EmbeddedKafka,
) -> None:
    topic, group = create_topic(kafka), unique("hung")
    produce(kafka, topic, 100)
    commit(kafka, group, topic, 10)
    transactions = Transactions(kafka)
    transactions.begin(neighbours(kafka, group, 1)[0], topic, 1)
    try:
        # a reader sees only the commit before the transaction, a poll sees this one
        commit(kafka, group, topic, 40)
        found = _look(kafka, "offsets-topic", group)
    finally:
        transactions.abort()

    assert found == (3, "UNKNOWN", "not enough seen")


@pytest.mark.parametrize("start", ["fresh", "again"])
def test_commits_behind_a_transaction_that_is_open_at_the_start_are_in_the_first_verdict(
    kafka: EmbeddedKafka, start: str, tmp_path: Path
) -> None:
    topic, group = create_topic(kafka), unique("group")
    produce(kafka, topic, 100)
    commit(kafka, group, topic, 10)
    kept = f'[checkpoint]\npath = "{tmp_path}"\n'
    if start == "again":
        with serving(kafka.bootstrap_servers, sections=kept) as served:
            served.wait_ready()
            eventually(lambda: served.status(group) is not None, "the group")
    transactions = Transactions(kafka)
    transactions.begin(neighbours(kafka, group, 1)[0], topic, 1)
    try:
        commit(kafka, group, topic, 90)
        with serving(kafka.bootstrap_servers, sections=kept) as served:
            served.wait_ready()
            (first,) = served.known(group)["partitions"]
    finally:
        transactions.abort()

    assert first["current_lag"] == 10


def _look(kafka: EmbeddedKafka, mode: str, group: str) -> tuple[int, str, str]:
    """Exit code, status and note of `lagwatch status --bootstrap`."""
    result = subprocess.run(
        [
            *(sys.executable, "-m", "lagwatch", "status", group, "--json", "--for", "5s"),
            *("--bootstrap", kafka.bootstrap_servers),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"LAGWATCH_CLUSTERS__LOCAL__COMMITS": mode},
    )
    (listed,) = json.loads(result.stdout)["groups"]
    return result.returncode, listed["status"], listed["note"]
