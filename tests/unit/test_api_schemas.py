"""Documents: what stands in them, in which form."""

from types import MappingProxyType

import numpy as np
import orjson
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.model import GroupStatus, Rule, TimeLagReason
from lagwatch.ports.queries import GroupDetail, PartitionDetail
from lagwatch_api import create_app
from lagwatch_api.answers import to_json
from lagwatch_api.v3.schemas import shortest
from tests.support.api_doubles import (
    MAIN,
    NOW_MS,
    GivenCluster,
    GivenQueries,
    GivenSettings,
    RecordingCommands,
    entry,
    group_verdict,
    partition_verdict,
    unknown_partition,
)
from tests.support.serving import ask

_STATUS = "/v3/kafka/c1/consumer/billing/status"
_LAG = "/v3/kafka/c1/consumer/billing/lag"


def _app(cluster: GivenCluster, settings: GivenSettings | None = None) -> FastAPI:
    return create_app(
        GivenQueries({"c1": cluster}),
        RecordingCommands(),
        settings or GivenSettings(),
        hostname="vm",
        version="0",
    )


def test_a_verdict_is_written_with_its_rule_and_evidence() -> None:
    partition = partition_verdict(instance_id="static-1", lost=12)
    app = _app(GivenCluster(verdicts={"billing": group_verdict(partition, complete=0.25)}))

    answered = ask(app, _LAG)

    first = {"offset": 100, "timestamp": NOW_MS, "observedAt": NOW_MS, "lag": 10}
    last = {"offset": 170, "timestamp": NOW_MS, "observedAt": NOW_MS, "lag": 40}
    written = {
        "topic": "orders",
        "partition": 0,
        "owner": "/10.0.0.7",
        "client_id": "billing-1",
        "status": "WARN",
        "start": first,
        "end": last,
        "current_lag": 42,
        "complete": 1,
        "rule": "lag_not_decreasing",
        "evidence": {"lag_first": 10, "lag_last": 40},
        "unknown_reason": None,
        "time_lag_s": 3.5,
        "time_lag_reason": "measured",
        "time_lag_method": "log_end_history",
        "time_lag_bound": "exact",
        "time_lag_error_s": None,
        "lost": 12,
        "readable_lag": 42,
        "since_ms": NOW_MS,
        "instance_id": "static-1",
    }
    expected = {
        "error": False,
        "message": "consumer status returned",
        "status": {
            "cluster": "c1",
            "group": "billing",
            "status": "WARN",
            "complete": 0.25,
            "partitions": [written],
            "partition_count": 1,
            "maxlag": written,
            "totallag": 42,
            "rule": "lag_not_decreasing",
            "time_lag_s": 3.5,
            "time_lag_reason": "measured",
            "time_lag_method": "log_end_history",
            "time_lag_bound": "exact",
            "time_lag_error_s": None,
            "time_lag_at_ms": None,
            "unknown_partitions": 0,
            "readable_lag": 42,
            "left_behind_lag": 0,
            "since_ms": NOW_MS,
            "at_ms": NOW_MS,
            "stale": False,
            "data_age_s": 0.0,
        },
        "request": {"url": _LAG, "host": "vm"},
    }
    assert answered.body == orjson.dumps(expected)


def test_an_unknown_lag_is_null_with_its_reason_and_never_zero() -> None:
    verdict = group_verdict(
        unknown_partition(),
        status=GroupStatus.UNKNOWN,
        rule=Rule.LOG_END_UNKNOWN,
        max_lag=None,
        time_lag_s=None,
        time_lag_reason=TimeLagReason.LOG_END_UNKNOWN,
    )
    app = _app(GivenCluster(verdicts={"billing": verdict}))

    status = ask(app, _LAG).json["status"]

    (partition,) = status["partitions"]
    assert (status["status"], status["maxlag"], status["unknown_partitions"]) == (
        "UNKNOWN",
        None,
        1,
    )
    sums = [status[name] for name in ("totallag", "readable_lag", "left_behind_lag")]
    assert sums == [None] * 3, "a sum of nothing is not known"
    assert partition["status"] == "UNKNOWN"
    assert partition["current_lag"] is None
    assert partition["unknown_reason"] == "topic_not_visible"
    assert (partition["time_lag_s"], partition["time_lag_reason"]) == (None, "log_end_unknown")
    assert (partition["readable_lag"], partition["since_ms"]) == (None, None)


def test_a_group_without_partitions_has_no_greatest_lag_and_no_rule() -> None:
    verdict = group_verdict(status=GroupStatus.OK, rule=None, complete=0.0)
    app = _app(GivenCluster(verdicts={"billing": verdict}))

    status = ask(app, _STATUS).json["status"]

    assert (status["maxlag"], status["rule"], status["complete"]) == (None, None, 0)


def test_windows_have_their_empty_slots_in_front() -> None:
    windows = [
        PartitionDetail(
            window=(None, entry(5, lag=None)), owner="/h", client_id="i", current_lag=None
        ),
        PartitionDetail(window=(), owner="", client_id="", current_lag=0),
    ]
    app = _app(GivenCluster(details={"billing": GroupDetail(topics={"orders": windows})}))

    answered = ask(app, "/v3/kafka/c1/consumer/billing")

    commit = {"offset": 5, "timestamp": NOW_MS, "observedAt": NOW_MS, "lag": None}
    assert answered.json["topics"] == {
        "orders": [
            {"offsets": [None, commit], "owner": "/h", "client_id": "i", "current-lag": None},
            {"offsets": [], "owner": "", "client_id": "", "current-lag": 0},
        ]
    }


def test_the_log_end_of_a_partition_stays_at_its_position() -> None:
    app = _app(GivenCluster(topics={"orders": (7, None, 0)}))

    assert ask(app, "/v3/kafka/c1/topic/orders").json["offsets"] == [7, -1, 0]


def test_lists_are_sorted() -> None:
    cluster = GivenCluster(
        topics={"b": (), "a": ()},
        details={"z": GroupDetail(topics={}), "y": GroupDetail(topics={})},
        groups_of_topic={"a": ("z", "y")},
    )
    modules: dict[str, dict[str, dict[str, object]]] = {"cluster": {"c2": {}, "c1": {}}}
    app = _app(cluster, GivenSettings(modules))

    assert ask(app, "/v3/kafka/c1/topic").json["topics"] == ["a", "b"]
    assert ask(app, "/v3/kafka/c1/consumer").json["consumers"] == ["y", "z"]
    assert ask(app, "/v3/kafka/c1/topic/a/consumers").json["consumers"] == ["y", "z"]
    assert ask(app, "/v3/config/cluster").json["modules"] == ["c1", "c2"]


def test_a_name_that_is_no_unicode_does_not_take_its_list_away() -> None:
    app = _app(GivenCluster(topics={"good": (), "b\udcffd": ()}))

    assert ask(app, "/v3/kafka/c1/topic").json["topics"] == ["b\ufffdd", "good"]


def test_pages_of_a_configured_origin_may_read_the_answers() -> None:
    main = {**MAIN, "general": {"access-control-allow-origin": "https://ops.example"}}
    app = _app(GivenCluster(), GivenSettings(main=main))

    assert ask(app, "/v3/kafka").headers["access-control-allow-origin"] == "https://ops.example"
    assert "access-control-allow-origin" not in ask(_app(GivenCluster()), "/v3/kafka").headers


@pytest.mark.parametrize(
    ("share", "printed"),
    [(1.0, b"1"), (0.0, b"0"), (0.4, b"0.4"), (1 / 3, b"0.33333334"), (2 / 3, b"0.6666667")],
)
def test_shares_are_printed_as_go_prints_them(share: float, printed: bytes) -> None:
    assert to_json(shortest(share)) == printed
    assert to_json(shortest(float(np.float32(share)))) == printed


@given(st.floats(0, 1, width=32))
def test_a_printed_share_names_the_same_number(share: float) -> None:
    printed = to_json(shortest(share))

    assert np.float32(printed.decode()) == np.float32(share)
    assert len(printed) <= len(orjson.dumps(share))


def test_what_numpy_or_a_view_holds_is_written_like_anything_else() -> None:
    held = MappingProxyType({"lag": np.int64(3), "share": None})

    assert to_json({"evidence": held}) == b'{"evidence":{"lag":3,"share":null}}'


def test_what_has_no_json_form_is_refused() -> None:
    with pytest.raises(TypeError):
        to_json({"a": object()})
