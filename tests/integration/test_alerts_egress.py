"""Channels connect only where they may."""

import asyncio
import socket

import pytest

from lagwatch.config.walk import hidden_texts
from lagwatch.errors import NotifyError, Refusal
from lagwatch.hiding import remember
from lagwatch.notify import egress
from lagwatch.notify.channels.http import HttpSender
from lagwatch.notify.channels.webhook import WebhookSettings
from tests.support.receiver import Reply, receiving


def sent(url: str, **options: object) -> str:
    """What the receiver is said to have answered."""
    settings = WebhookSettings.model_validate({"url": url, **options})
    remember(hidden_texts(settings))

    async def send() -> str:
        sender = HttpSender("hook", settings)
        try:
            return await sender.send("POST", url, body=b"{}", headers={})
        finally:
            await sender.close()

    return asyncio.run(send())


def said(url: str) -> str:
    """The answer of the receiver, or why it is none."""
    try:
        return sent(url)
    except NotifyError as error:
        return str(error)


@pytest.mark.parametrize(
    "allowed",
    [[], ["127.0.0.1"], ["*.example.com", "127.*"], ["localhost", "127.0.0.1"]],
)
def test_a_host_that_is_allowed_is_reached(allowed: list[str]) -> None:
    with receiving() as receiver:
        sent(receiver.url, allow_hosts=allowed)

    assert len(receiver.taken) == 1


def test_another_address_of_a_host_is_tried_when_one_is_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def found(host: str, port: int, *_: object, **__: object) -> list[object]:
        addresses = ("127.0.0.9", "127.0.0.1") if host == "two.example.com" else (host,)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    with receiving() as receiver, monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", found)
        patched.setattr(egress, "is_public", lambda _: True)
        url = receiver.url.replace("127.0.0.1", "two.example.com")
        sent(url, private_networks=False)

    assert len(receiver.taken) == 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"allow_hosts": ["hooks.example.com"]}, "127.0.0.1 is not in allow_hosts"),
        ({"allow_hosts": ["*.example.com"]}, "127.0.0.1 is not in allow_hosts"),
        ({"private_networks": False}, "private_networks = false"),
        ({"private_networks": False, "allow_hosts": ["127.0.0.1"]}, "private_networks = false"),
    ],
)
def test_another_host_is_never_connected_to(options: dict[str, object], reason: str) -> None:
    with receiving() as receiver, pytest.raises(NotifyError, match=reason):
        sent(receiver.url, **options)

    assert receiver.requests == []


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "127.1", "[::ffff:127.0.0.1]"),
        *("[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::127.0.0.1]"),
    ],
)
def test_other_names_of_this_machine_are_refused_too(host: str) -> None:
    with receiving() as receiver, pytest.raises(NotifyError, match="private_networks = false"):
        sent(f"http://{host}:{receiver.url.rpartition(':')[2]}/", private_networks=False)

    assert receiver.requests == []


@pytest.mark.parametrize("status", [200, 404])
@pytest.mark.parametrize("quoted", ["/services/T0/B0/Zsecret", "B0/Zkey-0123456789", "/a%20b/c+d"])
def test_a_receiver_that_quotes_the_path_gives_no_secret_away(status: int, quoted: str) -> None:
    with receiving(Reply(status=status, body=f"cannot take {quoted} now")) as receiver:
        url = f"{receiver.url}{'' if quoted.startswith('/') else '/'}{quoted}"
        answer = said(url)

    assert receiver.requests[0].path.endswith(quoted)
    assert "***" in answer
    assert quoted.rpartition("/")[2] not in answer


@pytest.mark.parametrize(
    ("statuses", "kind"),
    [
        ((301, 302, 303, 307, 308, 401, 402, 403, 404, 405, 407, 410), Refusal.NOT_ACCEPTED),
        ((408, 425, 429), Refusal.UNAVAILABLE),
        ((500, 502, 503, 504), Refusal.FAILED),
        ((413,), Refusal.TOO_LARGE),
        ((400, 409, 422), Refusal.CONTENT),
    ],
)
def test_only_what_is_wrong_with_the_content_is_given_up_soon(
    statuses: tuple[int, ...], kind: Refusal
) -> None:
    for status in statuses:
        with receiving(Reply(status=status)) as receiver, pytest.raises(NotifyError) as raised:
            sent(receiver.url)

        assert raised.value.refusal is kind, status


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status: int) -> None:
    with receiving() as other:
        away = Reply(status=status, headers={"Location": f"{other.url}/secret"})
        with receiving(away) as receiver, pytest.raises(NotifyError, match=str(status)):
            sent(receiver.url)

    assert other.requests == []
