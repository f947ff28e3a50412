"""Answers kept from one request to the next."""

from fastapi import FastAPI

from lagwatch.core.model import PartitionStatus
from lagwatch_api import create_app
from lagwatch_api.v3.reply import RenderedAnswers
from tests.support.api_doubles import (
    GivenCluster,
    GivenQueries,
    GivenSettings,
    RecordingCommands,
    group_verdict,
    partition_verdict,
)
from tests.support.serving import ask

_STATUS = "/v3/kafka/c1/consumer/billing/status"


def _given() -> tuple[FastAPI, GivenQueries]:
    verdicts = {"billing": group_verdict(partition_verdict())}
    queries = GivenQueries({"c1": GivenCluster(verdicts=verdicts)})
    app = create_app(queries, RecordingCommands(), GivenSettings(), hostname="vm", version="0")
    return app, queries


def test_a_group_is_judged_once_a_round_however_often_it_is_asked_for() -> None:
    app, queries = _given()

    answers = {ask(app, _STATUS).body for _ in range(3)}

    assert len(answers) == 1
    assert queries.judged == 1


def test_the_next_round_is_seen_at_once() -> None:
    app, queries = _given()
    before = ask(app, _STATUS).json["status"]["totallag"]
    queries.given["c1"].verdicts["billing"] = group_verdict(partition_verdict(current_lag=77))
    queries.given["c1"].round += 1

    after = ask(app, _STATUS).json["status"]["totallag"]

    assert (before, after) == (42, 77)


def test_status_and_lag_are_kept_apart() -> None:
    app, queries = _given()
    ok = partition_verdict(status=PartitionStatus.OK)
    queries.given["c1"].verdicts["billing"] = group_verdict(partition_verdict(), ok)

    few = ask(app, _STATUS).json["status"]["partitions"]
    all_of_them = ask(app, _STATUS.replace("status", "lag")).json["status"]["partitions"]

    assert (len(few), len(all_of_them)) == (1, 2)


def test_a_forgotten_group_is_forgotten_within_the_round() -> None:
    app, queries = _given()
    ask(app, _STATUS)
    del queries.given["c1"].verdicts["billing"]

    ask(app, _STATUS.removesuffix("/status"), "DELETE")

    assert ask(app, _STATUS).status == 404


def test_what_does_not_fit_is_not_kept_and_what_did_stays() -> None:
    kept = RenderedAnswers(max_bytes=12)

    kept.put("c1", 1, b"/a", b"12345678")
    kept.put("c1", 1, b"/b", b"12345678")

    assert kept.get("c1", 1, b"/a") == b"12345678"
    assert kept.get("c1", 1, b"/b") is None


def test_there_is_room_again_in_the_next_round() -> None:
    kept = RenderedAnswers(max_bytes=12)
    kept.put("c1", 1, b"/a", b"12345678")

    kept.put("c1", 2, b"/b", b"12345678")

    assert kept.get("c1", 2, b"/a") is None
    assert kept.get("c1", 2, b"/b") == b"12345678"
