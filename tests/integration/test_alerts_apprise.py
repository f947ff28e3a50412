"""Services that Apprise sends to, and what they answer."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest
import requests
from typer.testing import CliRunner

from lagwatch.cli.app import app
from lagwatch.clock import SystemClock
from lagwatch.errors import NotifyError, Refusal
from lagwatch.notify.channels.apprise import AppriseChannel, AppriseSettings
from lagwatch.notify.notice import Message
from lagwatch.notify.sample import sample_messages
from tests.support.fleet import Fleet, ShiftedClock, alert_settings
from tests.support.receiver import Receiver, Reply, receiving
from tests.support.running_alerts import running
from tests.support.waiting import eventually

POLICY = '[alerts.policies.all]\nthreshold = "warning"\nclose_for_s = 0\nreopen_s = 0\n'

pytestmark = pytest.mark.filterwarnings(  # Apprise's
    "ignore:'imghdr' is deprecated:DeprecationWarning"
)


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


def named(*groups: str, id_: str = "m") -> Message:
    message = sample_messages()[0]
    first = message.notices[0]
    notices = tuple(replace(first, group=group, key=f"key-{group}") for group in groups)
    return replace(message, id=id_, notices=notices)


def place(receiver: Receiver) -> str:
    return receiver.url.removeprefix("http://")


def channel(*receivers: Receiver) -> AppriseChannel:
    urls = [f"json://user:s3cret@{place(receiver)}/s3cret" for receiver in receivers]
    return AppriseChannel("chat", AppriseSettings(service_urls=urls), SystemClock())


def refused(chat: AppriseChannel, message: Message) -> NotifyError:
    with pytest.raises(NotifyError) as caught:
        asyncio.run(chat.send(message))
    assert "s3cret" not in str(caught.value)
    return caught.value


@contextmanager
def receivers(*replies: tuple[Reply, ...]) -> Iterator[list[Receiver]]:
    with ExitStack() as stack:
        yield [stack.enter_context(receiving(*each)) for each in replies]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_a_refusal_and_is_not_followed(status: int) -> None:
    with receivers((), ()) as (elsewhere, server):
        server.replies.append(Reply(status=status, headers={"Location": elsewhere.url}))
        error = refused(channel(server), named("a"))

        assert (error.refusal, error.retryable) == (Refusal.NOT_ACCEPTED, False)
        assert f"{status}" in str(error)
        assert elsewhere.requests == []
        assert len(server.requests) == 1


def test_a_url_that_asks_for_redirects_gets_none() -> None:
    with receivers((), ()) as (elsewhere, server):
        server.replies.append(Reply(status=302, headers={"Location": elsewhere.url}))
        url = f"json://{place(server)}/?redirect=yes"
        chat = AppriseChannel("chat", AppriseSettings(service_urls=[url]), SystemClock())

        assert refused(chat, named("a")).refusal is Refusal.NOT_ACCEPTED
        assert elsewhere.requests == []


def test_other_users_of_the_library_follow_redirects_as_before() -> None:
    with receivers((), ()) as (elsewhere, server):
        asyncio.run(channel(elsewhere).send(named("a")))
        server.replies.append(Reply(status=302, headers={"Location": elsewhere.url}))

        assert requests.get(server.url, timeout=5).status_code == 200


def test_the_command_says_that_a_service_redirects(tmp_path) -> None:
    with receivers((), ()) as (elsewhere, server):
        server.replies += [Reply(status=301, headers={"Location": elsewhere.url})] * 3
        config = tmp_path / "lagwatch.toml"
        config.write_text(
            f'[alerts]\nfile = "{tmp_path}/a.sqlite"\n'
            f'[alerts.apprise.a]\nservice_urls = ["json://{place(server)}/s3cret"]\n'
            '[clusters.here]\nbootstrap = "localhost:1"\n'
        )
        done = CliRunner().invoke(app, ["alert", "test", "-c", str(config)])

        assert done.exit_code != 0
        assert f"json://{place(server)}: 301" in done.output


@pytest.mark.parametrize(
    ("reply", "refusal", "retry_after_s", "said"),
    [
        (Reply(status=401), Refusal.NOT_ACCEPTED, None, "401 Unauthorized"),
        (Reply(status=403), Refusal.NOT_ACCEPTED, None, "403 Forbidden"),
        (Reply(status=404), Refusal.NOT_ACCEPTED, None, "404 Not Found"),
        (Reply(status=413), Refusal.TOO_LARGE, None, "413 "),
        (Reply(status=400), Refusal.CONTENT, None, "400 Bad Request"),
        (
            Reply(status=429, headers={"Retry-After": "77"}),
            Refusal.UNAVAILABLE,
            77,
            "429 Too Many Requests",
        ),
        (Reply(status=500), Refusal.FAILED, None, "500 Internal Server Error"),
        (Reply(hang_up=True), Refusal.CUT, None, "the connection was cut"),
        (Reply(after_s=30), Refusal.UNAVAILABLE, None, "no answer in time"),
    ],
)
def test_the_reason_is_named_and_decides_what_is_tried_next(
    reply: Reply, refusal: Refusal, retry_after_s: float | None, said: str
) -> None:
    with receivers((reply,)) as (server,):
        error = refused(channel(server), named("a"))

    assert (error.refusal, error.retry_after_s) == (refusal, retry_after_s)
    assert str(error).startswith(f"json://{place(server)}: {said}")


def test_a_port_that_nobody_listens_on_is_named() -> None:
    with receivers(()) as (server,):
        chat = channel(server)

    error = refused(chat, named("a"))

    assert str(error) == f"json://{place(server)}: no answer: Connection refused"
    assert error.refusal is Refusal.UNAVAILABLE


def test_a_service_that_accepted_a_message_does_not_get_it_again() -> None:
    with receivers((), (Reply(status=500),) * 2) as (healthy, broken):
        chat = channel(healthy, broken)

        errors = [refused(chat, named("a")) for _ in range(2)]
        answer = asyncio.run(chat.send(named("a")))

        assert answer == "accepted"
        assert {str(error) for error in errors} == {
            f"json://{place(broken)} (2 of 2): 500 Internal Server Error"
        }
        assert (len(healthy.requests), len(broken.requests)) == (1, 3)


def test_a_service_gets_no_more_than_it_takes() -> None:
    message = named(*(f"payment-service-consumer-of-invoices-{number:03}" for number in range(50)))
    with receivers((), ()) as (whole, short):
        urls = [f"json://{place(whole)}", f"rocket://abc/def@{place(short)}/%23c?mode=webhook"]
        chat = AppriseChannel("chat", AppriseSettings(service_urls=urls), SystemClock())

        asyncio.run(chat.send(message))

        assert len(whole.requests[0].json["message"]) > 2000
        (request,) = short.requests
        assert 500 < len(request.json["text"]) <= 1000


def test_a_subject_is_no_longer_than_250_characters() -> None:
    message = named("g" * 4000)
    notices = tuple(replace(each, cluster="c" * 400) for each in message.notices)
    with receivers(()) as (server,):
        asyncio.run(channel(server).send(replace(message, notices=notices)))

        assert len(server.requests[0].json["title"]) == 250


def test_a_part_or_a_newer_message_brings_a_service_only_what_it_lacks() -> None:
    with receivers((), (Reply(status=500),) * 3) as (healthy, broken):
        chat = channel(healthy, broken)

        refused(chat, named("a", "b"))
        refused(chat, named("a", id_="part"))
        refused(chat, named("b", "c", id_="newer"))

        assert [("c on " in each.json["title"]) for each in healthy.requests] == [False, True]
        assert "b on " not in healthy.requests[1].json["message"]


def test_a_message_that_is_tried_again_and_split_reaches_a_working_service_once(
    tmp_path, clock
) -> None:
    with receivers((), (Reply(status=500),) * 4) as (healthy, broken):
        urls = ", ".join(f'"json://{place(each)}/x"' for each in (healthy, broken))
        text = f"{POLICY}[alerts.apprise.chat]\nservice_urls = [{urls}]\n"
        fleet = Fleet(["a", "b"], clock)
        with running(alert_settings(tmp_path, text), clock) as alerts:
            fleet.fail("a", "b")
            alerts.sees(fleet)
            eventually(alerts.idle, "all is delivered")

        assert len(healthy.requests) == 1
        assert len(broken.requests) > 5  # split after three


def test_a_channel_without_services_delivers_nothing() -> None:
    assert "names no service" in str(refused(channel(), named("a")))


def test_the_service_that_may_accept_soonest_decides() -> None:
    with receivers((Reply(status=401),), (Reply(status=503, headers={"Retry-After": "9"}),)) as two:
        error = refused(channel(*two), named("a"))

    assert (error.refusal, error.retry_after_s) == (Refusal.FAILED, 9)
    assert "401" in str(error)
    assert "503" in str(error)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ", "slack://…"),
        ("ntfy://my-topic", "ntfys://…"),
        ("matrix://" + "ab" * 32 + "/?mode=t2bot", "matrix://…"),
        ("ntfys://user:s3cret@ntfy.example.com/my-topic", "ntfys://ntfy.example.com"),
        ("jsons://localhost/s3cret", "jsons://localhost"),
        ("gotify://gotify:8080/Abcdefghij12345", "gotify://gotify:8080"),
    ],
)
def test_of_a_service_no_more_than_scheme_and_host_is_shown(url: str, shown: str) -> None:
    settings = AppriseSettings(service_urls=[url])

    (service,) = AppriseChannel("chat", settings, SystemClock())._services  # noqa: SLF001

    assert service.name == shown
