"""Mails as a browser shows them, on a phone and on a desk: nothing is wider than the screen."""

import base64
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest

from lagwatch.clock import SystemClock
from lagwatch.notify.channels.email import Email, EmailSettings
from lagwatch.notify.notice import Message
from tests.support.alert_situations import hostile, situations
from tests.support.browser import Browser, browsing

EVERY = {**situations(), **hostile()}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.mark.parametrize("width", [390, 1000])
@pytest.mark.parametrize("situation", EVERY)
def test_a_mail_fits_the_screen(
    browser: Browser, tmp_path: Path, situation: str, width: int
) -> None:
    page = tmp_path / "mail.html"
    page.write_text(_shown(EVERY[situation]), encoding="utf-8")

    browser.look(width, 800, "light")
    browser.open(page.as_uri())

    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.text("h2")


def _shown(message: Message) -> str:
    """The HTML of the mail, with its picture inside."""
    settings = EmailSettings(host="localhost", sender="lagwatch@example.com", to=["o@example.com"])
    mail = Email("ops", settings, SystemClock()).compose(message)
    part = mail.get_body(("html",))
    assert isinstance(part, EmailMessage)
    html = str(part.get_content())
    for picture in mail.walk():
        if picture.get_content_type() == "image/png":
            content = picture.get_payload(decode=True)
            assert isinstance(content, bytes)
            html = html.replace(
                "cid:curve", f"data:image/png;base64,{base64.b64encode(content).decode()}"
            )
    return html
