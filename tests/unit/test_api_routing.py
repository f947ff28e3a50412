"""Paths and methods: what is found, repaired and refused."""

from urllib.parse import quote

import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from lagwatch_api import create_app
from lagwatch_api.v3.reply import asked
from tests.support.api_doubles import (
    GivenCluster,
    GivenQueries,
    GivenSettings,
    RecordingCommands,
    group_verdict,
    partition_verdict,
)
from tests.support.serving import ask

_ODD_NAMES = {
    "a slash": ("team/billing", "team%2Fbilling"),
    "a space": ("with space", "with%20space"),
    "a name that looks encoded": ("100%25", "100%2525"),
    "dots": ("..", ".."),
    "a dot as browsers can send it": (".", ".;"),
    "dots as browsers can send them": ("..", "..;"),
    "a dot and a semicolon": (".;", ".%3B"),
    "a plus": ("a+b", "a+b"),
    "letters of the world": ("zürich-顧客", "z%C3%BCrich-%E9%A1%A7%E5%AE%A2"),
    "a question mark": ("why?", "why%3F"),
    "bytes that are no text": ("a\ufffdb", "a%FFb"),
    "the name of a route": ("consumer", "consumer"),
    "a great length": ("x" * 20_000, "x" * 20_000),
}


def _app(
    *groups: str, queries: GivenQueries | None = None, commands: RecordingCommands | None = None
) -> FastAPI:
    verdicts = {group: group_verdict(partition_verdict(), group=group) for group in groups}
    return create_app(
        queries or GivenQueries({"c1": GivenCluster(verdicts=verdicts)}),
        commands or RecordingCommands(),
        GivenSettings(),
        hostname="vm",
        version="0",
    )


@pytest.mark.parametrize(("group", "segment"), _ODD_NAMES.values(), ids=_ODD_NAMES)
def test_a_group_may_have_any_name(group: str, segment: str) -> None:
    answered = ask(_app(group), f"/v3/kafka/c1/consumer/{segment}/status")

    assert answered.status == 200
    assert answered.json["status"]["group"] == group


def test_a_name_that_was_escaped_twice_is_understood() -> None:
    answered = ask(_app("with space"), "/v3/kafka/c1/consumer/with%2520space/lag")

    assert answered.status == 200
    assert answered.json["status"]["group"] == "with space"


def test_a_name_that_looks_escaped_is_taken_as_it_stands_first() -> None:
    app = _app("with space", "with%20space")

    answered = ask(app, "/v3/kafka/c1/consumer/with%2520space/lag")

    assert answered.json["status"]["group"] == "with%20space"


@pytest.mark.parametrize("known", [("a b", "c d"), ("a%20b", "c d"), ("a b", "c%20d")])
def test_each_of_two_names_may_be_the_one_escaped_twice(known: tuple[str, str]) -> None:
    verdicts = {known[1]: group_verdict(cluster=known[0], group=known[1])}
    app = _app(queries=GivenQueries({known[0]: GivenCluster(verdicts=verdicts)}))

    answered = ask(app, "/v3/kafka/a%2520b/consumer/c%2520d/status")

    assert answered.status == 200
    assert (answered.json["status"]["cluster"], answered.json["status"]["group"]) == known


def test_the_name_nobody_knows_is_shown_as_it_was_asked_for() -> None:
    answered = ask(_app(), "/v3/kafka/c1/consumer/with%2520space/status")

    assert answered.status == 404
    assert answered.json["status"]["group"] == "with%20space"


def test_the_url_in_the_answer_is_the_path_without_the_query() -> None:
    answered = ask(_app("g h"), "/v3/kafka/c1/consumer/g%20h/status?x=1&y=/z")

    assert answered.json["request"] == {"url": "/v3/kafka/c1/consumer/g h/status", "host": "vm"}


@pytest.mark.parametrize(
    ("asked_for", "right"),
    [
        ("/v3/kafka/", "/v3/kafka"),
        ("//v3//kafka", "/v3/kafka"),
        ("/V3/KAFKA/C1/Topic", "/v3/kafka/C1/topic"),
        ("/v3/kafka/c1/consumer/a%2FB%20c/STATUS/", "/v3/kafka/c1/consumer/a%2FB%20c/status"),
        ("/v3/kafka/c1/?a=b&c=%20", "/v3/kafka/c1?a=b&c=%20"),
        ("/HealthZ", "/healthz"),
        ("/v3/k%61fka", "/v3/kafka"),
        ("/v3/kafka/c1/consumer/x%0D%0Ay/lag/", "/v3/kafka/c1/consumer/x%0D%0Ay/lag"),
        ("/v3/kafka/c1/consumer/x\r\ny/lag/", "/v3/kafka/c1/consumer/x%0D%0Ay/lag"),
        ("//evil.example/../V3/kafka", None),
        ("//evil.example/", None),
    ],
)
def test_a_misspelled_path_is_redirected_within_the_server(
    asked_for: str, right: str | None
) -> None:
    answered = ask(_app(), asked_for)

    assert answered.status == (404 if right is None else 301)
    assert answered.headers.get("location") == right


def test_a_redirected_deletion_stays_one() -> None:
    answered = ask(_app(), "/V3/kafka/c1/consumer/g", "DELETE")

    assert answered.status == 307
    assert answered.headers["location"] == "/v3/kafka/c1/consumer/g"


def test_what_is_put_into_a_redirect_page_is_escaped() -> None:
    answered = ask(_app(), "/v3/kafka/c1/consumer/%22%3E%3Cscript%3E&'/lag/")

    assert "<script" not in answered.text
    assert "'" not in answered.text


@pytest.mark.parametrize(
    ("path", "method", "allow"),
    [
        ("/v3/kafka/c1/consumer/g", "PATCH", "DELETE, GET, OPTIONS"),
        ("/v3/kafka/c1/consumer/g/topic/t", "GET", "DELETE, OPTIONS"),
        ("/v3/admin/loglevel", "DELETE", "GET, OPTIONS, POST"),
        ("/healthz", "POST", "GET, OPTIONS"),
    ],
)
def test_another_method_is_refused_and_the_right_ones_named(
    path: str, method: str, allow: str
) -> None:
    answered = ask(_app(), path, method)

    assert answered.status == 405
    assert answered.headers["allow"] == allow
    assert answered.headers["content-type"] == "text/plain; charset=utf-8"
    assert answered.text == "Method Not Allowed\n"


def test_options_name_the_methods() -> None:
    answered = ask(_app(), "/v3/kafka/c1/consumer/g", "OPTIONS")

    assert answered.status == 200
    assert answered.headers["allow"] == "DELETE, GET, OPTIONS"
    assert answered.body == b""


@pytest.mark.parametrize(
    "path", ["/v3", "/v2/kafka", "/v3/kafka/c1/nothing", "/v3/kafka/c1/consumer/g/h/i", "*"]
)
@pytest.mark.parametrize("method", ["GET", "OPTIONS", "DELETE"])
def test_an_unknown_path_is_refused_in_burrows_words(path: str, method: str) -> None:
    answered = ask(_app(), path, method)

    assert answered.status == 404
    assert answered.text == '{"error":true,"message":"invalid request type","result":{}}\n'
    assert answered.headers["content-type"] == "text/plain; charset=utf-8"


def test_forgetting_names_the_group_and_the_topic() -> None:
    commands = RecordingCommands()
    app = _app(commands=commands)

    ask(app, "/v3/kafka/c1/consumer/team%2Fa", "DELETE")
    ask(app, "/v3/kafka/c1/consumer/g/topic/t%20u", "DELETE")

    assert commands.forgotten == [("c1", "team/a", None), ("c1", "g", "t u")]


def test_routes_of_fastapi_can_stand_beside() -> None:
    app = _app()

    @app.get("/api/v1/things")
    async def things() -> dict[str, int]:
        return {"things": 3}

    assert ask(app, "/api/v1/things").json == {"things": 3}
    assert "/api/v1/things" in app.openapi()["paths"]
    assert ask(app, "/v3/kafka").status == 200
    assert ask(app, "/api/v1/nothing").status == 404


def test_a_question_is_asked_once_when_it_is_answered() -> None:
    questions: list[tuple[str, ...]] = []

    asked(lambda *names: questions.append(names), "a%20b", "c")

    assert questions == [("a%20b", "c")]


_SHARED = _app("g")
_WORDS = (
    "v3 kafka c1 consumer topic status lag config storage cluster admin loglevel burrow ready "
    "healthz readyz docs g . .. %2F % %zz"
)
_SEGMENTS = st.one_of(
    st.sampled_from(["", *_WORDS.split()]),
    st.binary(max_size=12).map(lambda raw: raw.decode("latin-1").replace("?", "")),
)


@given(
    segments=st.lists(_SEGMENTS, max_size=9),
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE"]),
    query=st.sampled_from(["", "?", "?a=b", "?%ff"]),
    body=st.binary(max_size=20),
)
def test_no_request_makes_the_server_fail(
    segments: list[str], method: str, query: str, body: bytes
) -> None:
    answered = ask(_SHARED, "/" + "/".join(segments) + query, method, body)

    # 503 is /readyz, which may be drawn, too: this application has no cluster that is ready
    assert answered.status in {200, 301, 307, 400, 404, 405, 503}


@given(group=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30))
def test_every_name_that_is_listed_can_be_asked_for(group: str) -> None:
    answered = ask(_app(group), f"/v3/kafka/c1/consumer/{quote(group, safe='')}/status")

    assert answered.status == 200
    assert answered.json["status"]["group"] == group
