"""Names in the URL of a webhook stay within their path segment or their parameter."""

from dataclasses import replace
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.clock import SystemClock
from lagwatch.config.alerts import AlertsSettings
from lagwatch.notify.channels.webhook import Webhook, WebhookSettings
from lagwatch.notify.notice import Message
from lagwatch.notify.render import RenderError, Templates
from lagwatch.notify.review import opening_faults, template_faults
from lagwatch.notify.sample import sample_messages

ROOT = "http://127.0.0.1:1/"


def named(group: str, *, runbook: str = "") -> Message:
    message = sample_messages()[0]
    notices = [
        replace(notice, group=group, runbook=runbook, verdict={**notice.verdict, "group": group})
        for notice in message.notices
    ]
    return replace(message, notices=tuple(notices))


def sent(template: str, message: Message) -> str:
    """The URL that is requested."""
    settings = WebhookSettings(url=template)
    url = Webhook("hook", settings, SystemClock()).request(message)[1]
    return str(httpx.Request("POST", url).url)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("esc-/../../admin?q=1#f", "esc-%2F..%2F..%2Fadmin%3Fq%3D1%23f"),
        ("esc-two&x=evil", "esc-two%26x%3Devil"),
        ('a/b %2f "q" &', "a%2Fb%20%252f%20%22q%22%20%26"),
        ("a+b;c:d@e", "a%2Bb%3Bc%3Ad%40e"),
        ("http://evil/", "http%3A%2F%2Fevil%2F"),
        ("заказы", "%D0%B7%D0%B0%D0%BA%D0%B0%D0%B7%D1%8B"),
        ("a.b-c_d~e", "a.b-c_d~e"),
        ("...", "..."),
    ],
)
@pytest.mark.parametrize("filters", ["", " | urlencode"])
def test_a_name_is_encoded_once(group: str, expected: str, filters: str) -> None:
    template = f"{ROOT}gone/{{{{ notice.group{filters} }}}}/end?x={{{{ notice.group{filters} }}}}"

    assert sent(template, named(group)) == f"{ROOT}gone/{expected}/end?x={expected}"


@pytest.mark.parametrize("group", [".", ".."])
def test_a_name_of_dots_is_no_step_in_the_path(group: str) -> None:
    url = sent(f"{ROOT}a/{{{{ notice.group }}}}/b?x={{{{ notice.group }}}}", named(group))

    # receivers decode once, then remove segments of dots
    segments = unquote(urlsplit(url).path).split("/")
    assert segments == ["", "a", "%2E" * len(group), "b"]
    assert parse_qsl(urlsplit(url).query) == [("x", group)]


@given(st.text(min_size=1))
def test_no_name_changes_the_rest_of_the_url(group: str) -> None:
    message = named(group)
    template = f"{ROOT}a/{{{{ notice.group }}}}/b?x={{{{ notice.group }}}}&y=1"

    parts = urlsplit(sent(template, message))

    assert parts.path.count("/") == 3
    assert parts.path.startswith("/a/")
    assert parts.path.endswith("/b")
    assert parse_qsl(parts.query, keep_blank_values=True)[1] == ("y", "1")
    assert not parts.fragment


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (
            "{{ notice.runbook }}/new?g={{ notice.group }}",
            "https://book.example/a?b=c%2Fd/new?g=x%2Fy",
        ),
        (
            ROOT + "?link={{ notice.runbook }}",
            ROOT + "?link=https%3A%2F%2Fbook.example%2Fa%3Fb%3Dc%252Fd",
        ),
        ('{{ "http://127.0.0.1:1/a?b=" ~ notice.group }}', ROOT + "a?b=x%2Fy"),
        ('{{ "http://127.0.0.1:1/a?b=" ~ (notice.group | urlencode) }}', ROOT + "a?b=x%2Fy"),
        ('{% set root = "http://127.0.0.1:1/" %}{{ root }}{{ notice.group }}', ROOT + "x%2Fy"),
        (
            "{% set u %}http://127.0.0.1:1/{{ notice.group }}{% endset %}{{ u }}?{{ u|urlencode }}",
            ROOT + "x%2Fy?http%3A%2F%2F127.0.0.1%3A1%2Fx%252Fy",
        ),
        (
            "{% macro part(n) %}/{{ n }}{% endmacro %}http://127.0.0.1:1{{ part(notice.group) }}",
            ROOT + "x%2Fy",
        ),
        (ROOT + '{{ "open/a" if notice.event == "open" else "close/a" }}', ROOT + "open/a"),
        (
            ROOT + '?g={{ notices | map(attribute="group") | map("urlencode") | join("&g=") }}',
            ROOT + "?g=x%2Fy",
        ),
        (ROOT + '?{{ {"g": notice.group} | urlencode }}', ROOT + "?g=x%2Fy"),
        (ROOT + "{{ notice.group | safe }}", ROOT + "x/y"),
        (ROOT + '{{ "&" }}a/../b', ROOT + "&a/../b"),
    ],
)
def test_text_of_the_template_and_a_url_that_begins_it_are_kept(
    template: str, expected: str
) -> None:
    url = WebhookSettings(url=template)
    message = named("x/y", runbook="https://book.example/a?b=c%2Fd")

    assert Webhook("hook", url, SystemClock()).request(message)[1] == expected


_BROKEN = {
    "{{ notice.group SEKRET1 }}": "line 2: is no template: a tag is not written as Jinja2 reads it",
    "{{ notice.group 'SEKRET1' }}": "line 2: is no template",
    "{{ notice.group | SEKRET1 }}": "line 2: there is no such filter or test",
    "{{ 'a' is SEKRET1 }}": "line 2: there is no such filter or test",
    "{% SEKRET1 %}": "line 2: is no template",
    "{{ SEKRET1": "line 2: is no template",
    "{{ SEKRET1 }}": "line 2: there is no such variable",
    "{{ notice.SEKRET1 }}": "line 2: it asks for something that the message does not have",
    "{{ 'SEKRET1' + 1 }}": "line 2: it cannot be rendered (TypeError)",
    "{{ notice['SEKRET1'] ~ '' }}": "line 2: it asks for something that the message does not have",
}


@pytest.mark.parametrize("option", ["url", "close_url", "header"])
@pytest.mark.parametrize(("broken", "problem"), _BROKEN.items())
def test_no_fault_quotes_a_template_that_may_hold_a_secret(broken, problem, option) -> None:
    template = f"{ROOT}SEKRET0/\n{broken}/SEKRET2"
    headers = {"X-Key": template} if option == "header" else {}
    urls = {option: template} if option != "header" else {}
    settings = AlertsSettings.model_validate(
        {"webhook": {"hook": {"url": ROOT, **urls, "headers": headers}}}
    )

    faults = [*template_faults(settings), *opening_faults(settings)]

    assert len(faults) == 1
    assert faults[0].problem.startswith(problem)
    assert "SEKRET" not in repr(faults)


@pytest.mark.parametrize("options", [{"url": True}, {"secret": True}])
def test_what_fails_on_a_message_later_is_not_quoted_either(options) -> None:
    renderer = Templates(**options).compile(f"{ROOT}{{{{ given['SEKRET1'] ~ '/SEKRET2' }}}}")

    with pytest.raises(RenderError) as raised:
        renderer.render_with({"given": {}})

    assert str(raised.value) == "it asks for something that the message does not have"
