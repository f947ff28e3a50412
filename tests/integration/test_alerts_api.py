"""`/api/v1/alerts` over the real alerts."""

import asyncio
import json
import socket
import sqlite3
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from typer.testing import CliRunner

from lagwatch.access import AccessControl
from lagwatch.cli import app
from lagwatch.config.server import ServerSettings
from lagwatch.config.tokens import line
from lagwatch.notify.alerts import Alerts
from lagwatch.ports.access import Access
from lagwatch.ports.alerts import IncidentAsk
from lagwatch_api import create_app
from lagwatch_api.openapi import DocumentedApp
from lagwatch_api.v1.alerts import router
from tests.support.api_doubles import GivenQueries, GivenSettings, RecordingCommands
from tests.support.fleet import CLUSTER, Fleet, ShiftedClock, alert_settings
from tests.support.serving import ask as asked
from tests.support.waiting import eventually

ROOT = "/api/v1/alerts"
JSON = {"Content-Type": "application/json"}
TOKEN = "lagwatch_" + "t" * 43


@contextmanager
def opened(folder: Path, clock: ShiftedClock) -> Iterator[Alerts]:
    settings = alert_settings(
        folder,
        "[alerts.policies.all]\nclose_for_s = 0\nreopen_s = 0\n"
        '[alerts.webhook.hook]\nurl = "http://127.0.0.1:1"\n'
        '[alerts.mutes.night]\nreason = "load"\ndays = ["mon"]\nat = "03:00"\nduration_s = 60\n',
    )
    alerts = Alerts(settings, clock)
    try:
        yield alerts
    finally:
        alerts.close()


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture
def alerts(tmp_path: Path, clock: ShiftedClock) -> Iterator[Alerts]:
    with opened(tmp_path, clock) as alerts:
        yield alerts


@contextmanager
def served(folder: Path, clock: ShiftedClock, *groups: str) -> Iterator[str]:
    """The alerts of these groups behind a real server; its URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    found: list[uvicorn.Server] = []

    def serve() -> None:
        with opened(folder, clock) as alerts:  # in the thread that uses them
            Fleet(list(groups), clock).shown_to(alerts)
            found.append(uvicorn.Server(uvicorn.Config(app_of(alerts), log_config=None)))
            found[0].run(sockets=[listener])

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        eventually(lambda: bool(found) and found[0].started, "the server listens")
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        found[0].should_exit = True
        thread.join(30)
        listener.close()


def app_of(alerts: Alerts, access: Access | None = None) -> FastAPI:
    app = create_app(
        GivenQueries({}),
        RecordingCommands(),
        GivenSettings(),
        access=access,
        hostname="h",
        version="0",
    )
    assert isinstance(app, DocumentedApp)
    app.include_router(router(alerts))
    return app


def whole_app(fleet: Fleet, alerts: Alerts) -> FastAPI:
    """The verdicts on a fleet, with its alerts."""
    return create_app(
        fleet.queries,
        RecordingCommands(),
        GivenSettings(),
        alerts=alerts,
        hostname="h",
        version="0",
    )


def ask(
    alerts: Alerts, method: str, path: str, access: Access | None = None, **more
) -> httpx.Response:
    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(app=app_of(alerts, access))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.request(method, ROOT + path, **more)

    return asyncio.run(asked())


def test_a_group_has_the_teams_of_its_policies_in_their_order_of_precedence(
    tmp_path, clock
) -> None:
    fleet = Fleet(["billing", "mailer"], clock, topic="orders")
    settings = alert_settings(
        tmp_path,
        '[alerts.policies.other-topic]\ntopic = "returns"\nteam = "shops"\n'
        '[alerts.policies.money]\ngroup = "^bill"\nteam = "payments"\n'
        '[alerts.policies.rest]\nteam = ""\n'
        '[alerts.webhook.hook]\nurl = "http://127.0.0.1:1"\n',
    )
    with closing(Alerts(settings, clock)) as alerts:
        app = whole_app(fleet, alerts)

        groups = asked(app, f"/api/v1/clusters/{CLUSTER}/subscriptions").json["groups"]

    assert {name: group["teams"] for name, group in groups.items()} == {
        "billing": ["payments"],
        "mailer": [],
    }


def test_a_group_that_was_well_for_a_moment_is_in_trouble_since_then_over_a_restart(
    tmp_path, clock
) -> None:
    fleet = Fleet(["billing", "mailer"], clock)
    settings = alert_settings(
        tmp_path,
        "[alerts.policies.all]\nclose_for_s = 600\n"
        '[alerts.webhook.hook]\nurl = "http://127.0.0.1:1"\n',
    )
    with closing(Alerts(settings, clock)) as alerts:
        app = whole_app(fleet, alerts)
        fleet.fail("billing")
        fleet.shown_to(alerts)
        (incident,) = alerts.incidents(IncidentAsk(state="open"))[0]
        fleet.heal("billing")
        fleet.pass_time(30)
        fleet.shown_to(alerts)
        fleet.fail("billing")
        fleet.shown_to(alerts)
    with closing(Alerts(settings, clock)) as alerts:
        app = whole_app(fleet, alerts)
        fleet.shown_to(alerts)
        (again,) = alerts.incidents(IncidentAsk(state="open"))[0]
        path = f"/api/v1/clusters/{CLUSTER}"

        trends = asked(app, f"{path}/trends?group=billing&group=mailer").json
        billing = asked(app, f"{path}/groups/billing").json
        mailer = asked(app, f"{path}/groups/mailer").json

    assert (again.id, again.since_ms) == (incident.id, incident.since_ms)
    assert incident.again_ms is None
    assert again.again_ms is not None
    assert again.since_ms < again.again_ms == billing["since_ms"]
    assert trends["trouble_since"] == {"billing": again.again_ms}
    assert billing["trouble_since_ms"] == again.again_ms
    assert mailer["trouble_since_ms"] is None
    at = datetime.fromtimestamp(again.again_ms / 1000, UTC)
    assert f"since {at:%H:%M:%S}" in again.headline


def test_incidents_open_and_past_are_paged_newest_first(alerts, clock) -> None:
    fleet = Fleet([f"g{number}" for number in range(5)], clock)
    fleet.fail(*fleet.groups)
    fleet.shown_to(alerts)
    fleet.heal("g0", "g1")
    fleet.shown_to(alerts)

    seen, cursor, pages = [], "", 0
    while pages == 0 or cursor:
        page = ask(alerts, "GET", "/incidents", params={"limit": 2, "cursor": cursor}).json()
        seen += [incident["group"] for incident in page["incidents"]]
        cursor, pages = page["next"], pages + 1
    closed = ask(alerts, "GET", "/incidents?state=closed").json()["incidents"]

    assert sorted(seen) == list(fleet.groups)
    assert pages == 3
    assert {incident["group"] for incident in closed} == {"g0", "g1"}


def test_an_incident_shows_its_transitions_and_notices(alerts, clock) -> None:
    fleet = Fleet(["billing"], clock)
    fleet.fail("billing")
    fleet.shown_to(alerts)
    fleet.heal("billing")
    fleet.shown_to(alerts)
    (found,) = ask(alerts, "GET", "/incidents").json()["incidents"]

    answer = ask(alerts, "GET", f"/incidents/{found['id']}").json()

    acts = [
        (transition["act"], transition["reason"])
        for transition in answer["incident"]["transitions"]
    ]
    assert acts == [("open", "first"), ("close", "healed")]
    # the opening was not sent before the end overtook it
    assert [(notice["event"], notice["state"]) for notice in answer["notices"]] == [
        ("close", "waiting")
    ]


def test_an_open_incident_says_how_far_behind_its_group_is_now(alerts, clock) -> None:
    fleet = Fleet(["billing"], clock)
    fleet.fail("billing")
    fleet.shown_to(alerts)
    fresh = ask(alerts, "GET", "/incidents").json()["incidents"][0]
    fleet.pass_time(120)
    fleet.shown_to(alerts)
    old = ask(alerts, "GET", "/incidents").json()["incidents"][0]
    fleet.heal("billing")
    fleet.shown_to(alerts)
    ended = ask(alerts, "GET", "/incidents").json()["incidents"][0]

    lag = fresh["verdict"]["total_lag"]
    assert fresh["behind_now"].startswith(f"{lag} messages behind, ")
    assert f"{lag} messages behind, " in old["headline"]
    assert f"; now {lag + 1200:,} messages behind, " in old["headline"]
    assert old["behind_now"].startswith(f"{lag + 1200:,} messages behind, ")
    assert ended["behind_now"] == ""


def incident_of(alerts: Alerts, clock: ShiftedClock) -> tuple[Fleet, dict]:
    """A fleet of one group that fails, and the open incident of it."""
    fleet = Fleet(["billing"], clock)
    fleet.fail("billing")
    fleet.shown_to(alerts)
    (found,) = ask(alerts, "GET", "/incidents").json()["incidents"]
    return fleet, found


def test_an_incident_is_acknowledged_while_it_is_open(alerts, clock) -> None:
    fleet, found = incident_of(alerts, clock)
    path = f"/incidents/{found['id']}/acknowledge"

    made = ask(alerts, "POST", path, json={"author": "me"}).json()
    fleet.heal("billing")
    fleet.shown_to(alerts)
    late = ask(alerts, "POST", path, json={"author": "me"})

    assert found["acknowledged_ms"] is None
    assert made["acknowledged_by"] == "me"
    assert made["acknowledged_ms"] > 0
    assert late.status_code == 404


@pytest.mark.parametrize(
    ("headers", "said", "author"),
    [
        ({"authorization": f"Bearer {TOKEN}"}, "", "night-shift"),
        ({"authorization": f"Bearer {TOKEN}"}, "anna", "night-shift (said to be anna)"),
        ({"cookie": f"lagwatch_token={TOKEN}"}, "", "night-shift"),
        ({"x-user": "bob"}, "", "bob"),
        ({"x-user": "bob"}, "bob", "bob"),
    ],
)
def test_the_author_is_who_the_server_knows(alerts, tmp_path, headers, said, author) -> None:
    clock = ShiftedClock()
    tokens = tmp_path / "tokens"
    tokens.write_text(line("night-shift", "operate", TOKEN))
    proxy = {"addresses": ["127.0.0.1"], "user_header": "x-user", "scope": "operate"}
    auth = {"tokens_file": tokens, "proxy": proxy}
    settings = ServerSettings.model_validate({"address": ":1", "hosts": ["test"], "auth": auth})
    access = AccessControl(settings, clock)
    _, found = incident_of(alerts, clock)
    mute = {"group": "billing", "reason": "deploying", "duration_s": 60, "author": said}
    told = {"access": access, "headers": headers}

    made = ask(alerts, "POST", "/mutes", json=mute, **told)
    path = f"/incidents/{found['id']}/acknowledge"
    done = ask(alerts, "POST", path, json={"author": said}, **told)

    assert made.json()["author"] == done.json()["acknowledged_by"] == author


def test_an_open_server_keeps_the_author_that_is_said(alerts, clock) -> None:
    settings = ServerSettings.model_validate({"address": ":1", "hosts": ["test"], "open": True})
    mute = {"group": "billing", "reason": "deploying", "duration_s": 60, "author": "anna"}

    made = ask(alerts, "POST", "/mutes", AccessControl(settings, clock), json=mute)

    assert made.json()["author"] == "anna"


def test_mutes_have_bounds(alerts, clock) -> None:
    order = {"group": "billing*", "reason": "deploying", "duration_s": 60}

    long = ask(alerts, "POST", "/mutes", json={**order, "group": "*" + "a" * 500})
    for number in range(1000):
        alerts.mute(
            cluster="",
            group=f"g{number}",
            reason="deploying",
            author="",
            starts_ms=clock.now_ms(),
            ends_ms=clock.now_ms() + 60_000,
        )
    many = ask(alerts, "POST", "/mutes", json=order)

    assert long.status_code in {400, 422}
    assert many.status_code == 409
    assert "end some" in many.text


def test_an_id_may_be_cut_to_its_first_characters(alerts, clock) -> None:
    _, found = incident_of(alerts, clock)
    mute = {"group": "billing", "reason": "deploying", "duration_s": 60}
    made = ask(alerts, "POST", "/mutes", json=mute).json()

    shown = ask(alerts, "GET", f"/incidents/{found['id'][:6]}")
    done = ask(alerts, "POST", f"/incidents/{found['id'][:6]}/acknowledge", json={})
    short = ask(alerts, "DELETE", f"/mutes/{made['id'][:3]}")
    ended = ask(alerts, "DELETE", f"/mutes/{made['id'][:6]}")

    assert shown.json()["incident"]["id"] == done.json()["id"] == found["id"]
    assert done.json()["acknowledged_ms"] is not None
    assert (short.status_code, ended.status_code) == (404, 204)


def test_the_first_characters_of_several_ids_are_refused_with_all_of_them(alerts, tmp_path) -> None:
    order = {"group": "billing", "reason": "deploying", "duration_s": 60}
    made = [ask(alerts, "POST", "/mutes", json=order).json()["id"] for _ in range(2)]
    with closing(sqlite3.connect(tmp_path / "alerts.sqlite")) as connection, connection:
        for number, mute in enumerate(made):
            connection.execute("UPDATE mutes SET id = ? WHERE id = ?", (f"abcdef{number}", mute))

    refused = ask(alerts, "DELETE", "/mutes/abcdef")

    assert refused.status_code == 400
    assert "abcdef0, abcdef1; write more of it" in refused.text
    assert ask(alerts, "DELETE", "/mutes/abcdef1").status_code == 204


@pytest.mark.parametrize("starts_ms", [2**63, 9 * 10**18, 253_402_300_799_999, -1, 1.5])
def test_a_mute_outside_of_time_is_refused(alerts, starts_ms) -> None:
    order = {"group": "g", "reason": "r", "duration_s": 60, "starts_ms": starts_ms}

    assert ask(alerts, "POST", "/mutes", json=order).status_code == 400
    assert ask(alerts, "GET", "/mutes").json()["mutes"][1:] == []


@pytest.mark.parametrize("names", [{}, {"group": ""}, {"group": "", "cluster": ""}])
def test_a_mute_that_names_nothing_is_refused(alerts, names) -> None:
    made = ask(alerts, "POST", "/mutes", json={**names, "reason": "r", "duration_s": 60})

    assert made.status_code == 400
    assert "body.group" in made.json()["message"]
    assert '"group": "*"' in made.json()["message"]
    assert ask(alerts, "GET", "/mutes").json()["mutes"][1:] == []


@pytest.mark.parametrize("names", [{"group": "*"}, {"cluster": "*"}, {"cluster": CLUSTER}])
def test_all_groups_are_muted_where_that_is_written(alerts, clock, names) -> None:
    Fleet(["a", "b"], clock).shown_to(alerts)

    made = ask(alerts, "POST", "/mutes", json={**names, "reason": "r", "duration_s": 60})

    assert (made.status_code, made.json()["matching"]) == (201, 2)


@pytest.mark.parametrize("key", ["group", "cluster", "reason", "author"])
@pytest.mark.parametrize("text", ["\\ud800", "a\\udfffb"])
def test_half_of_a_character_in_a_mute_is_refused(alerts, key, text) -> None:
    given = {"group": "g", "reason": "r", "duration_s": 60, key: "TEXT"}
    body = json.dumps(given).replace("TEXT", text)

    refused = ask(alerts, "POST", "/mutes", content=body, headers=JSON)

    assert refused.status_code == 400
    assert f"body.{key}: " in refused.json()["message"]
    assert "half of a character" in refused.json()["message"]
    assert ask(alerts, "GET", "/mutes").json()["mutes"][1:] == []


def test_half_of_a_character_in_a_key_is_refused(alerts) -> None:
    body = '{"group": "g", "reason": "r", "duration_s": 60, "\\ud800": 1}'

    assert ask(alerts, "POST", "/mutes", content=body, headers=JSON).status_code == 400


def test_half_of_a_character_in_an_author_is_refused(alerts, clock) -> None:
    _, found = incident_of(alerts, clock)
    path = f"/incidents/{found['id']}/acknowledge"

    refused = ask(alerts, "POST", path, content='{"author": "\\ud800"}', headers=JSON)

    assert refused.status_code == 400
    assert "body.author: " in refused.json()["message"]


@pytest.mark.parametrize(
    ("query", "groups"),
    [
        ("?cluster=here", ["orders", "billing"]),
        ("?group=billing", ["billing"]),
        ("?cluster=here&group=orders", ["orders"]),
        ("?cluster=there", []),
    ],
)
def test_notices_of_a_cluster_or_group(alerts, clock, query, groups) -> None:
    fleet = Fleet(["billing", "orders"], clock)
    for group in ("billing", "orders"):
        fleet.fail(group)
        fleet.shown_to(alerts)

    found = ask(alerts, "GET", f"/notices{query}").json()["notices"]

    assert [notice["group"] for notice in found] == groups


def test_mutes_are_made_listed_and_ended(alerts) -> None:
    order = {"group": "billing", "reason": "deploying", "author": "me", "duration_s": 60}

    made = ask(alerts, "POST", "/mutes", json=order)
    listed = ask(alerts, "GET", "/mutes").json()["mutes"]
    ended = ask(alerts, "DELETE", f"/mutes/{made.json()['id']}")
    again = ask(alerts, "DELETE", f"/mutes/{made.json()['id']}")

    assert made.status_code == 201
    assert [incident["id"] for incident in listed] == ["config:night", made.json()["id"]]
    assert listed[1]["active"] is True
    assert (ended.status_code, again.status_code) == (204, 404)


def test_a_mute_begins_by_the_clock_of_the_alerts(alerts, clock) -> None:
    clock.ahead_ms += 3_600_000
    order = {"group": "billing", "reason": "deploying", "duration_s": 60}

    made = ask(alerts, "POST", "/mutes", json=order).json()

    assert made["active"] is True
    assert abs(made["starts_ms"] - clock.now_ms()) < 30_000
    assert ask(alerts, "GET", "/mutes").json()["mutes"][1] == made


def test_the_policies_in_effect_and_whose_is_whose(alerts) -> None:
    policies = ask(alerts, "GET", "/policies").json()["policies"]
    mine = ask(alerts, "GET", "/policy?cluster=here&group=billing&topic=a&topic=b").json()

    assert [policy["name"] for policy in policies] == ["all"]
    assert mine["topics"] == {"a": "all", "b": "all"}


def cursor_of(text: str) -> str:
    """Such a cursor as no answer has."""
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/incidents/nope", 404),
        ("GET", "/incidents?cursor=%25%25", 400),
        ("GET", f"/incidents?cursor={cursor_of(f'{2**63}:1')}", 400),
        ("GET", f"/incidents?cursor={cursor_of(f'1:{2**63}')}", 400),
        ("GET", f"/notices?cursor={cursor_of('1' + '0' * 30)}", 400),
        ("GET", f"/notices?cursor={cursor_of('-1')}", 400),
        ("GET", "/incidents?limit=0", 400),
        ("GET", "/incidents?state=ajar", 400),
        ("GET", "/notices?state=lost", 400),
        ("POST", "/messages/nope/retry", 404),
        ("POST", "/mutes", 400),
    ],
)
def test_what_cannot_be_asked_is_refused(alerts, method, path, status) -> None:
    response = ask(alerts, method, path)

    assert response.status_code == status
    assert response.json()["error"] is True


def test_a_mute_says_how_many_groups_it_is_for(alerts, clock) -> None:
    fleet = Fleet(["billing-eu", "billing-us", "orders"], clock)
    fleet.shown_to(alerts)

    both = ask(
        alerts, "POST", "/mutes", json={"group": "billing-*", "reason": "x", "duration_s": 36_000}
    )
    mistyped = ask(
        alerts, "POST", "/mutes", json={"group": "biling", "reason": "x", "duration_s": 36_000}
    )
    fleet.fail("billing-eu", "orders")
    fleet.shown_to(alerts)
    states = {notice["group"] for notice in ask(alerts, "GET", "/notices").json()["notices"]}

    assert (both.json()["matching"], mistyped.json()["matching"]) == (2, 0)
    assert states == {"orders"}


def test_a_mute_knows_groups_by_their_incidents_while_kafka_is_away(tmp_path, clock) -> None:
    with opened(tmp_path, clock) as alerts:
        fleet = Fleet(["billing", "orders"], clock)
        fleet.shown_to(alerts)
        fleet.fail("billing")
        fleet.shown_to(alerts)

    with opened(tmp_path, clock) as alerts:
        order = {"reason": "x", "duration_s": 36_000}
        made = [
            ask(alerts, "POST", "/mutes", json={"group": group, **order})
            for group in ("billing", "biling")
        ]

    assert [each.json()["matching"] for each in made] == [1, 0]


def test_a_group_that_healed_while_muted_is_listed_so(alerts, clock) -> None:
    fleet = Fleet(["billing", "orders"], clock)
    fleet.fail("billing", "orders")
    fleet.shown_to(alerts)
    order = {"group": "billing", "reason": "x", "duration_s": 36_000}
    ask(alerts, "POST", "/mutes", json=order)
    fleet.pass_time(60)
    fleet.heal("billing")
    fleet.shown_to(alerts)

    found = ask(alerts, "GET", "/incidents?state=open").json()["incidents"]

    healed = {each["group"]: each["healed_ms"] for each in found}
    assert healed["orders"] is None
    assert healed["billing"] is not None
    assert abs(healed["billing"] - clock.now_ms()) < 60_000


def test_an_open_incident_says_whether_it_is_muted_now(alerts, clock) -> None:
    fleet = Fleet(["billing", "orders"], clock)
    fleet.fail("billing", "orders")
    fleet.shown_to(alerts)
    order = {"group": "bill*", "reason": "x", "duration_s": 60}
    mute = ask(alerts, "POST", "/mutes", json=order).json()["id"]

    found = ask(alerts, "GET", "/incidents?state=open").json()["incidents"]
    one = next(each["id"] for each in found if each["group"] == "billing")
    shown = ask(alerts, "GET", f"/incidents/{one}").json()["incident"]
    ask(alerts, "DELETE", f"/mutes/{mute}")
    after = ask(alerts, "GET", f"/incidents/{one}").json()["incident"]

    assert {each["group"]: each["muted"] for each in found} == {"billing": True, "orders": False}
    assert (shown["muted"], after["muted"]) == (True, False)


def test_the_command_warns_of_a_mute_that_matches_no_group(tmp_path, clock) -> None:
    with served(tmp_path, clock, "billing-eu", "orders") as url:
        words = ("--for", "2h", "--reason", "x", "--url", url)
        mistyped = CliRunner().invoke(app, ["alert", "mute", "add", "biling*", *words])
        meant = CliRunner().invoke(app, ["alert", "mute", "add", "billing*", *words])

    assert mistyped.exit_code == meant.exit_code == 0
    assert "No known group has this name now" in mistyped.stderr
    assert not meant.stderr


def test_the_documentation_has_every_route(alerts) -> None:
    paths = app_of(alerts).openapi()["paths"]

    assert {path.removeprefix(ROOT) for path in paths if path.startswith(ROOT)} == {
        *("/incidents", "/incidents/{incident}", "/incidents/{incident}/acknowledge"),
        *("/notices", "/messages/{message}/retry"),
        "/channels/{channel}/retry",
        *("/mutes", "/mutes/{mute}", "/policies", "/policy"),
    }


def test_mutes_of_the_configuration_say_when_they_come_until_they_are_over(tmp_path: Path) -> None:
    once = '[alerts.mutes.{}]\nreason = "r"\nstarts = "{}"\nends = "{}"\n'
    settings = alert_settings(
        tmp_path,
        '[alerts.mutes.night]\nreason = "load"\ndays = ["mon", "sun"]\nat = "03:00"\n'
        'duration_s = 5400\ntimezone = "Europe/Berlin"\n'
        + once.format("over", "2020-01-01T00:00", "2020-01-02T00:00")
        + once.format("later", "2100-01-01T00:00", "2100-01-02T00:00"),
    )
    with closing(Alerts(settings, ShiftedClock())) as alerts:
        night, later = alerts.mutes()

    assert night.weekly == "mon, sun at 03:00 Europe/Berlin for 1 h 30 min"
    assert (later.id, later.weekly) == ("config:later", "")
    assert (later.starts_ms, later.ends_ms) == (4_102_444_800_000, 4_102_531_200_000)


def test_a_closed_incident_says_since_when_its_group_is_well(tmp_path: Path) -> None:
    clock = ShiftedClock()
    fleet = Fleet(["billing"], clock)
    settings = alert_settings(
        tmp_path,
        '[alerts.policies.all]\nclose_for_s = 60\n[alerts.webhook.hook]\nurl = "http://127.0.0.1:1"\n',
    )
    with closing(Alerts(settings, clock)) as alerts:
        fleet.fail("billing")
        fleet.shown_to(alerts)
        fleet.heal("billing")
        fleet.shown_to(alerts)
        healed_ms = clock.now_ms()
        fleet.pass_time(70)
        fleet.shown_to(alerts)
        (ended,) = alerts.incidents(IncidentAsk(state="closed"))[0]

    assert ended.healed_ms == pytest.approx(healed_ms, abs=2_000)
    assert ended.closed_ms == pytest.approx(healed_ms + 70_000, abs=2_000)
