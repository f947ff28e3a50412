"""`/api/v1`: the history over HTTP, from a real store."""

import csv
import io
import itertools
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest
from fastapi import FastAPI
from starlette.requests import Request

from lagwatch.core.record import Kind, from_rows
from lagwatch.errors import HistoryError
from lagwatch.history.parquet import ParquetStore
from lagwatch.history.reader import HistoryReader
from lagwatch.monitor.story import Stories, Story
from lagwatch_api import create_app
from lagwatch_api.v1 import history
from lagwatch_api.v1.pages import Form, wanted_form
from lagwatch_api.v1.wording import duration_ms, instant_ms
from tests.support.api_doubles import (
    GivenCluster,
    GivenQueries,
    GivenSettings,
    RecordingCommands,
    group_verdict,
    partition_verdict,
)
from tests.support.history import (
    NOON_MS,
    events,
    group_sample,
    group_samples,
    happening,
    rollup,
    sample,
    samples,
)
from tests.support.serving import Served, ask, served

pytestmark = pytest.mark.slow  # writes a real store

HOUR_MS = 3_600_000
GROUP = "/api/v1/clusters/here/groups/billing"
ONE_HOUR = "from=2026-11-21T12:00:00Z&to=2026-11-21T13:00:00Z"


@pytest.fixture
def store(tmp_path: Path) -> ParquetStore:
    store = ParquetStore(str(tmp_path / "store"))
    rows = [group_sample(at_ms=NOON_MS + second * 1000) for second in (0, 30, 120)]
    store.write(
        [
            group_samples([*rows, group_sample(group="a/b")]),
            samples([sample()]),
            events([happening(), happening(group="a/b", event="group_status")]),
        ],
        batch="b1",
    )
    return store


@pytest.fixture
def app(store: ParquetStore) -> FastAPI:
    return _app(HistoryReader(store, interval_ms=30_000, full_ms=600_000))


@pytest.fixture
def server(app: FastAPI) -> Iterator[Served]:
    with served(app) as running:
        yield running


class Quiet:
    """A cluster in which nothing has happened since the start."""

    def __init__(self) -> None:
        self.story = Story()


def _app(queries, *, memory: Stories | None = None, watched: GivenCluster | None = None) -> FastAPI:
    """The routes of the history; without `watched` the cluster has no groups now."""
    known = GivenQueries({"here": watched or GivenCluster()})
    app = create_app(known, RecordingCommands(), GivenSettings(), hostname="h", version="1")
    now_ms = NOON_MS + HOUR_MS
    app.include_router(history.router(queries, known, events=memory, now_ms=lambda: now_ms))
    return app


def test_a_group_over_time_with_its_gaps(app: FastAPI) -> None:
    answered = ask(app, f"{GROUP}/history?{ONE_HOUR}&step=1m&limit=3")

    assert answered.status == 200
    assert answered.json == {
        "about": {
            "cluster": "here",
            "group": "billing",
            "from_ms": NOON_MS,
            "to_ms": NOON_MS + HOUR_MS,
        },
        "kind": "group_samples",
        "step_ms": 60_000,
        "next": NOON_MS + 180_000,
        "points": [
            _point(0, samples=2),
            {
                **dict.fromkeys(_point(0)),
                "at_ms": NOON_MS + 60_000,
                "samples": 0,
            },
            _point(2, samples=1),
        ],
    }


def test_a_group_without_samples_in_this_time_is_known_and_one_without_any_is_not(
    app: FastAPI,
) -> None:
    later = "from=2026-11-21T12:30:00Z&to=2026-11-21T12:40:00Z"
    unknown = "/api/v1/clusters/here/groups/unknown"

    for step in ("raw", "1m", "1m&fields=lag_max", "1m&fields=samples"):
        known = ask(app, f"{GROUP}/history?{later}&step={step}")
        assert known.status == 200, step
        for path in ("history", "topics/orders/partitions/0/history"):
            answered = ask(app, f"{unknown}/{path}?{later}&step={step}")
            assert (answered.status, answered.json["message"]) == (
                404,
                "group 'unknown on here' is not known",
            )


def test_a_partition_over_time(app: FastAPI) -> None:
    answered = ask(
        app, f"{GROUP}/topics/orders/partitions/0/history?{ONE_HOUR}&step=raw&fields=lag,status"
    )

    assert answered.json["points"] == [{"at_ms": NOON_MS, "lag": 10, "status": "OK"}]
    assert answered.json["about"]["partition"] == 0


def test_a_name_may_hold_a_slash(server: Served) -> None:
    path = "/api/v1/clusters/here/groups/a%2Fb"

    history = server.ask(f"{path}/history?{ONE_HOUR}&step=raw").json
    events = server.ask(f"{path}/events?{ONE_HOUR}").json

    assert [point["group"] for point in history["points"]] == ["a/b"]
    assert [point["event"] for point in events["points"]] == ["group_status"]


def test_what_happened_to_a_group_and_in_a_cluster(app: FastAPI) -> None:
    of_group = ask(app, f"{GROUP}/events?{ONE_HOUR}").json
    of_cluster = ask(app, f"/api/v1/clusters/here/events?{ONE_HOUR}").json

    assert [(point["before"], point["after"]) for point in of_group["points"]] == [("OK", "WARN")]
    assert len(of_cluster["points"]) == 2


@pytest.mark.parametrize(
    "instant", ["2026-11-21T12:00:31Z", "1795262431", "1795262431000", "-3569s", "now-3569s"]
)
def test_who_was_worst_at_an_instant(app: FastAPI, instant: str) -> None:
    answered = ask(app, f"/api/v1/top?at={instant}&by=lag&limit=5")

    assert [point["group"] for point in answered.json["points"]] == ["a/b", "billing"]
    assert answered.json["about"]["at_ms"] == NOON_MS + 31_000


def test_csv_by_format(server: Served) -> None:
    answered = server.ask(f"{GROUP}/history?{ONE_HOUR}&step=1m&limit=2&format=csv")

    rows = list(csv.DictReader(io.StringIO(answered.text)))
    assert answered.headers["content-type"] == "text/csv; charset=utf-8"
    assert answered.headers["lagwatch-next"] == str(NOON_MS + 120_000)
    assert [row["lag_max"] for row in rows] == ["10", ""]


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("text/csv", Form.CSV),
        ("text/html,text/csv;q=0.9", Form.CSV),
        ("application/vnd.apache.arrow.stream", Form.ARROW),
        ("application/json, text/csv", Form.JSON),
        ("*/*", Form.JSON),
        ("text/html", Form.JSON),
        ("", Form.JSON),
    ],
)
def test_the_form_is_the_first_that_is_accepted_and_known(accept: str, form: Form) -> None:
    request = Request({"type": "http", "headers": [(b"accept", accept.encode())]})

    assert wanted_form(request, None) is form
    assert wanted_form(request, Form.ARROW) is Form.ARROW


def test_arrow_by_format(server: Served) -> None:
    answered = server.ask(f"{GROUP}/history?{ONE_HOUR}&step=1m&limit=3&format=arrow")

    with pa.ipc.open_stream(answered.body) as stream:
        table = stream.read_all()
    assert answered.headers["content-type"] == "application/vnd.apache.arrow.stream"
    assert table.column("lag_max").to_pylist() == [10, None, 10]


def test_the_last_day_is_shown_when_no_time_is_given(app: FastAPI) -> None:
    answered = ask(app, f"{GROUP}/history")

    assert answered.json["about"]["to_ms"] == NOON_MS + HOUR_MS
    assert answered.json["about"]["from_ms"] == NOON_MS - 23 * HOUR_MS
    assert len(answered.json["points"]) == 288


_LATER = "from=2026-11-21T12:30:00Z&to=2026-11-21T12:40:00Z"
_HERE = "/api/v1/clusters/here"


@pytest.mark.parametrize("number", ["1_0", "+1", " 1", "1.0", "٣"])
def test_a_partition_is_a_number_of_digits(store, number) -> None:
    app = _app(HistoryReader(store, interval_ms=30_000, full_ms=600_000))

    answered = ask(app, f"{GROUP}/topics/orders/partitions/{quote(number)}/history")

    assert answered.status == 400
    assert "must be digits only" in answered.json["message"]


@pytest.mark.parametrize(
    ("path", "unknown"),
    [
        (f"{GROUP}/topics/nosuch/partitions/0/history", "partition 'nosuch/0 of billing on here'"),
        (f"{GROUP}/topics/orders/partitions/7/history", "partition 'orders/7 of billing on here'"),
        (f"{_HERE}/groups/nosuch/topics/orders/partitions/0/history", "group 'nosuch on here'"),
        (f"{_HERE}/groups/nosuch/events", "group 'nosuch on here'"),
        (f"{_HERE}/groups/nosuch/events?source=memory", "group 'nosuch on here'"),
        ("/api/v1/clusters/nope/groups/nope/events", "group 'nope on nope'"),
        ("/api/v1/clusters/nope/events", "cluster 'nope'"),
    ],
)
def test_names_that_are_watched_and_recorded_nowhere_are_not_known(store, path, unknown) -> None:
    app = _app(
        HistoryReader(store, interval_ms=30_000, full_ms=600_000), memory=Stories({"here": Quiet()})
    )

    answered = ask(app, path)

    assert (answered.status, answered.json["message"]) == (404, f"{unknown} is not known")


@pytest.mark.parametrize(
    "path",
    [
        f"{GROUP}/topics/orders/partitions/0/history?{_LATER}",
        f"{GROUP}/events?{_LATER}",
        f"{GROUP}/events?source=memory",
        f"{_HERE}/groups/watched/events",
        f"{_HERE}/groups/watched/events?source=memory",
        f"{_HERE}/groups/watched/topics/orders/partitions/0/history",
        f"{_HERE}/groups/noted/events?{_LATER}",
        f"/api/v1/clusters/here/events?{_LATER}",
        f"/api/v1/clusters/gone/events?{_LATER}",
    ],
)
def test_names_that_are_watched_or_were_recorded_once_have_empty_answers(store, path) -> None:
    noted = [happening(group="noted"), happening(group="noted", cluster="gone")]
    store.write([events(noted)], batch="b2")
    app = _app(
        HistoryReader(store, interval_ms=30_000, full_ms=600_000),
        memory=Stories({"here": Quiet()}),
        watched=GivenCluster(verdicts={"watched": group_verdict(partition_verdict())}),
    )

    answered = ask(app, path)

    assert answered.status == 200
    assert [point for point in answered.json["points"] if point.get("samples", 1)] == []


def test_what_only_roll_ups_are_left_of_is_known(tmp_path) -> None:
    store = ParquetStore(str(tmp_path / "rolled"))
    in_partition = {"level": "partition", "topic": "orders", "partition": 0}
    rows = [rollup(Kind.ROLLUP_1H), rollup(Kind.ROLLUP_1H, **in_partition)]
    store.write([from_rows(Kind.ROLLUP_1H, rows)], batch="b1")
    app = _app(HistoryReader(store, interval_ms=30_000, full_ms=600_000))

    for path in ("history", "topics/orders/partitions/0/history", "events"):
        assert ask(app, f"{GROUP}/{path}?{_LATER}").status == 200, path


@pytest.mark.parametrize("partition", ["2147483648", str(2**63), str(2**64), "1" + "0" * 30, "-1"])
def test_a_number_that_no_partition_can_have_is_refused(app: FastAPI, partition: str) -> None:
    answered = ask(app, f"{GROUP}/topics/orders/partitions/{partition}/history?{ONE_HOUR}")

    assert answered.status == 400
    assert answered.json["message"].startswith("path.partition: Input should be ")


def test_the_bounds_of_a_partition_are_documented(app: FastAPI) -> None:
    path = f"{_HERE.replace('here', '{cluster}')}/groups/{{group}}/topics/{{topic}}/partitions"

    document = ask(app, "/openapi.json").json["paths"][path + "/{partition}/history"]["get"]

    (schema,) = (each["schema"] for each in document["parameters"] if each["name"] == "partition")
    assert (schema["minimum"], schema["maximum"]) == (0, 2**31 - 1)


_NUMBERS = [str(2**63), str(2**64), "-1", "1" + "0" * 30, str(-(2**63) - 1), "1e400", "9" * 3000]
_NUMBERS += [f"{text}{unit}" for text in ("9" * 12, "-" + "9" * 12) for unit in "sw"]


def test_no_number_in_a_path_or_query_is_an_internal_error(app: FastAPI) -> None:
    usual = {"cluster": "here", "group": "billing", "topic": "orders", "partition": "0"}
    paths = ask(app, "/openapi.json").json["paths"]
    tried = 0
    for path, methods in paths.items():
        parameters = methods.get("get", {}).get("parameters", ())
        for fuzzed, number in itertools.product(parameters, _NUMBERS):
            given = usual | {fuzzed["name"]: number}
            in_path = {each["name"] for each in parameters if each["in"] == "path"}
            target = path.format(**{name: given.get(name, "x") for name in in_path})
            if fuzzed["in"] == "query":
                target += f"?{fuzzed['name']}={number}"

            assert ask(app, target).status < 500, target

            tried += 1
    assert tried > 500


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("from=yesterday", "yesterday"),
        ("from=2026-13-40", "2026-13-40"),
        ("from=-5x", "5x"),
        ("from=2026-11-22&to=2026-11-21", "Exchange"),
        ("from=99999999999999999", "9999"),
        ("step=0s", "step=0s"),
        ("step=999999999999w", "366d"),
        ("step=a", "30s"),
        ("limit=0", "limit"),
        ("limit=10001", "limit"),
        ("fields=lag_max,nope", "nope"),
        ("format=xml", "format"),
    ],
)
def test_a_bad_request_is_reported_what_to_write(app: FastAPI, query: str, word: str) -> None:
    answered = ask(app, f"{GROUP}/history?{query}")

    assert answered.status == 400
    assert word in answered.json["message"]


class Broken:
    """A history that cannot be read."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    async def group(self, cluster, group, asked):
        del cluster, group, asked
        raise HistoryError(store="x", kind=self._kind, message="red index", retryable=True)


@pytest.mark.parametrize(("kind", "status"), [("connection", 503), ("timeout", 504)])
def test_a_history_that_cannot_be_read_is_said(kind: str, status: int) -> None:
    answered = ask(_app(Broken(kind)), f"{GROUP}/history")

    assert answered.status == status
    assert "red index" in answered.json["message"]


def test_the_routes_are_documented(app: FastAPI) -> None:
    document = ask(app, "/openapi.json").json

    path = document["paths"]["/api/v1/clusters/{cluster}/groups/{group}/history"]["get"]
    names = {parameter["name"] for parameter in path["parameters"]}
    assert {"cluster", "group", "from", "to", "step", "fields", "limit", "format"} <= names


# instants and durations


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("2026-11-21T12:00:00Z", NOON_MS),
        ("2026-11-21T13:00:00+01:00", NOON_MS),
        ("2026-11-21T13:00:00 01:00", NOON_MS),
        ("2026-11-21T12:00:00", NOON_MS),
        ("2026-11-21T12:00:00.123456789Z", NOON_MS + 123),
        ("2026-11-21", NOON_MS - 12 * HOUR_MS),
        ("1795262400", NOON_MS),
        ("1795262400.5", NOON_MS + 500),
        ("1795262400000", NOON_MS),
        ("0", 0),
        ("now", NOON_MS),
        ("-1h", NOON_MS - HOUR_MS),
        ("now-90m", NOON_MS - HOUR_MS * 3 // 2),
    ],
)
def test_instants_are_read_as_people_write_them(text: str, at_ms: int) -> None:
    assert instant_ms(text, NOON_MS) == at_ms


def test_durations_are_read_as_people_write_them() -> None:
    assert [duration_ms(text) for text in ("30", "30s", "1.5m", "2h", "1d", "250ms", "1w")] == [
        *(30_000, 30_000, 90_000, 7_200_000, 86_400_000, 250, 604_800_000)
    ]


def _point(minute: int, *, samples: int = 0) -> dict:
    return {
        "at_ms": NOON_MS + minute * 60_000,
        "samples": samples,
        "lag_max": 10,
        "lag_avg": 10.0,
        "time_lag_max_s": 1.5,
        "status": "OK",
    }
