"""E-mail: text and HTML, with the lag curve as an inline picture; messages of a thread together."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime, parseaddr
from html import escape
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from lagwatch.clock import Clock
from lagwatch.config.alerts_channels import ChannelSettings
from lagwatch.config.secret import HIDDEN, Secret
from lagwatch.config.section import OrFile, ReadableFile, TextFile, Texts
from lagwatch.core.words import printable
from lagwatch.errors import Fault, NotifyError, Refusal
from lagwatch.notify.channels.base import ChannelKind, ChannelLimits, TemplateText
from lagwatch.notify.channels.http import tls_context
from lagwatch.notify.curve import WIDTH, png
from lagwatch.notify.notice import Message, ReportMessage
from lagwatch.notify.render import Renderer, RenderError, Templates
from lagwatch.notify.words import cut

_CURVE: Final = "<!--curve-->"
_LONGEST_SUBJECT: Final = 250
_PERMANENT: Final = range(500, 600)
_TOO_LARGE: Final = 552
_SMTPS: Final = 465
_PLAIN_FIRST: Final = (25, 587)
_OF_THE_ACCOUNT: Final = frozenset({530, 534, 535, 538, 550, 551, 553, 554})
"""Refusals of the sender, the account or the recipients: somebody has to mend them."""


class EmailSettings(ChannelSettings):
    """E-mail as text and HTML, with the lag curve as a picture."""

    host: str = Field(min_length=1, description="SMTP server")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(
        default=587, description="port of the SMTP server"
    )
    security: Literal["starttls", "tls", "none"] = Field(
        default="starttls",
        description="encryption: upgrade with STARTTLS, TLS from the first byte, or none",
    )
    ca_file: ReadableFile | None = Field(
        default=None, description="PEM file with the trusted CAs; unset: those of the system"
    )
    verify: bool = Field(default=True, description="check certificates and host names")
    username: str | None = Field(default=None, description="user name; unset: no authentication")
    password: Annotated[Secret | None, OrFile(meaning="file that holds the password")] = Field(
        default=None, description="password; prefer `password_file`"
    )
    sender: Annotated[str, Field(min_length=1)] = Field(description="address in `From`")
    to: Annotated[Texts, Field(min_length=1)] = Field(description="addresses it is sent to")
    subject: str = Field(default="", description='template of the subject; "" = ours')
    text_file: TextFile | None = Field(default=None, description="template of the text part")
    html_file: TextFile | None = Field(default=None, description="template of the HTML part")


class Email:
    """A `Channel`."""

    limits = ChannelLimits()

    def __init__(self, name: str, settings: EmailSettings, _: Clock) -> None:
        plain, html = Templates(), Templates(html=True)
        self._name = name
        self._settings = settings
        self._subject = plain.compile(settings.subject or "{{ subject }}")
        self._text = _template(plain, settings.text_file, "email.txt.j2")
        self._html = _template(html, settings.html_file, "email.html.j2")
        self._tls = tls_context(name, ca_file=settings.ca_file, verify=settings.verify)
        self._domain = settings.sender.rpartition("@")[2].strip("> ") or "lagwatch"

    async def send(self, message: Message) -> str:
        return await self._send(self.compose(message))

    async def send_report_message(self, report_message: ReportMessage) -> str:
        return await self._send(self.compose_report_message(report_message))

    async def _send(self, mail: EmailMessage) -> str:
        import aiosmtplib

        settings = self._settings
        password = settings.password.get_secret_value() if settings.password else None
        try:
            refused, answer = await aiosmtplib.send(
                mail,
                hostname=settings.host,
                port=settings.port,
                username=settings.username,
                password=password if settings.username else None,
                use_tls=settings.security == "tls",
                start_tls=settings.security == "starttls",
                tls_context=self._tls if settings.security != "none" else None,
                timeout=settings.timeout_s,
            )
        except aiosmtplib.SMTPRecipientsRefused as error:
            codes = [recipient.code for recipient in error.recipients]
            permanent = all(code in _PERMANENT for code in codes)
            refusal = Refusal.NOT_ACCEPTED if permanent else Refusal.UNAVAILABLE
            raise self._failed(error, refusal) from error
        except aiosmtplib.SMTPAuthenticationError as error:
            raise self._failed(error, Refusal.NOT_ACCEPTED) from error
        except aiosmtplib.SMTPResponseException as error:
            raise self._failed(error, _refusal(error.code)) from error
        except (aiosmtplib.SMTPException, OSError) as error:
            raise self._failed(error, Refusal.UNAVAILABLE) from error
        except Exception as error:  # the library may raise anything
            text = f"{type(error).__name__}: {error}"
            raise self._failed(text, Refusal.UNAVAILABLE) from error
        if refused:
            raise self._failed(_partly(refused, answer), Refusal.SOME_RECIPIENTS)
        return answer

    def compose(self, message: Message) -> EmailMessage:
        """The e-mail of a message.

        Raises:
            NotifyError: a template fails on it.
        """
        try:
            subject, text, html = (
                template.render(message) for template in (self._subject, self._text, self._html)
            )
        except RenderError as error:
            raise NotifyError(
                channel=self._name, message=f"the template failed: {error}", retryable=False
            ) from error
        mail = self._headed(subject, message.id, message.at_ms)
        threads = dict.fromkeys(notice.thread for notice in message.notices if notice.thread)
        earlier = [self._id(thread) for thread in threads if thread != message.id]
        if earlier:
            mail["In-Reply-To"] = earlier[0]
            mail["References"] = " ".join(earlier[:20])
        mail.set_content(text)
        self._add_html(mail, html, message)
        return mail

    def compose_report_message(self, report_message: ReportMessage) -> EmailMessage:
        """The e-mail of a report: its text, with the page as a file."""
        mail = self._headed(report_message.subject, report_message.id, report_message.at_ms)
        mail.set_content(report_message.text + "\n")
        if report_message.page is not None:
            mail.add_attachment(
                report_message.page,
                maintype="text",
                subtype="html",
                filename=report_message.page_name,
            )
        return mail

    def _headed(self, subject: str, key: str, at_ms: int) -> EmailMessage:
        mail = EmailMessage()
        # who names a group could write another subject: a program for mail decodes `=?utf-8?…?=`
        shown = printable(" ".join(subject.split())).replace("=?", "= ?")
        mail["Subject"] = cut(shown, _LONGEST_SUBJECT)
        mail["From"] = self._settings.sender
        mail["To"] = ", ".join(self._settings.to)
        mail["Date"] = format_datetime(datetime.fromtimestamp(at_ms / 1000, UTC))
        mail["Message-ID"] = self._id(key)
        mail["X-Lagwatch-Idempotency-Key"] = key
        mail["Auto-Submitted"] = "auto-generated"
        return mail

    def _add_html(self, mail: EmailMessage, html: str, message: Message) -> None:
        first = message.notices[0]
        picture = png(first.curve)
        if picture is None:
            mail.add_alternative(html.replace(_CURVE, ""), subtype="html")
            return
        of = escape(cut(printable(first.curve_of), _LONGEST_SUBJECT))
        highest = max(lag for _, lag in first.curve)
        shown = (
            f'<p><img src="cid:curve" width="{WIDTH}" style="max-width:100%;height:auto"'
            f' alt="{of}"><br><small>{of}, 0 to {highest:,} messages</small></p>'
        )
        mail.add_alternative(html.replace(_CURVE, shown), subtype="html")
        html_part = mail.get_body(("html",))
        if isinstance(html_part, EmailMessage):
            html_part.add_related(picture, "image", "png", cid="<curve>", filename="lag.png")

    def _id(self, message: str) -> str:
        return f"<{message}@{self._domain}>"

    def _failed(self, error: object, refusal: Refusal) -> NotifyError:
        text = " ".join(str(error).split()) or type(error).__name__
        retryable = refusal is Refusal.UNAVAILABLE
        return NotifyError(channel=self._name, message=text, retryable=retryable, refusal=refusal)

    async def close(self) -> None:
        """Each message has a connection of its own."""


def _partly(refused: Mapping[str, tuple[int, str]], answer: str) -> str:
    """Which recipients the server refused and why; `answer` is that for all others."""
    each = "; ".join(f"{address}: {code} {text}" for address, (code, text) in refused.items())
    return f"recipients refused: {each} (delivered to the others: {answer})"


def _refusal(code: int) -> Refusal:
    """What an answer of the server means for the next attempt."""
    if code not in _PERMANENT:
        return Refusal.UNAVAILABLE
    if code == _TOO_LARGE:
        return Refusal.TOO_LARGE
    return Refusal.NOT_ACCEPTED if code in _OF_THE_ACCOUNT else Refusal.CONTENT


def _template(templates: Templates, file: object, ours: str) -> Renderer:
    if isinstance(file, Path):
        return templates.compile(file.read_text(encoding="utf-8"))
    return templates.shipped(ours)


def _templates(settings: EmailSettings) -> Iterator[TemplateText]:
    yield TemplateText(option="subject", source=settings.subject)
    for option, file in (("text_file", settings.text_file), ("html_file", settings.html_file)):
        if file is not None:
            source = file.read_text(encoding="utf-8")
            yield TemplateText(option=option, source=source, html=option == "html_file")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _doubts(settings: EmailSettings) -> Iterator[Fault]:
    if "/" in settings.host or (":" in settings.host and not _is_address(settings.host)):
        yield Fault(
            key="host",
            value=f'"{settings.host}"',
            problem="is not only the name of a host, so nothing is sent",
            remedy='Write host = "mx.example.com", and the port as port = 587.',
        )
    for option, addresses in (("sender", (settings.sender,)), ("to", settings.to)):
        for address in addresses:
            if not re.fullmatch(r"[^@\s]+@[^@\s]+", parseaddr(address)[1]):
                yield Fault(
                    key=option,
                    value=f'"{address}"',
                    problem="is no mail address",
                    remedy="Write ops@example.com, or Ops <ops@example.com>.",
                )
    if settings.port == _SMTPS and settings.security == "starttls":
        yield Fault(
            key="port",
            value=f"{_SMTPS}",
            problem="is the port of SMTP over TLS, where STARTTLS does not work",
            remedy='Set security = "tls", or port = 587.',
        )
    if settings.port in _PLAIN_FIRST and settings.security == "tls":
        yield Fault(
            key="port",
            value=f"{settings.port}",
            problem="is a port where TLS begins with STARTTLS, so TLS from the first byte fails",
            remedy=f'Set security = "starttls", or port = {_SMTPS}.',
        )
    unread = "password_file" in settings.model_fields_set  # that is said already
    if settings.username and not (settings.password or unread):
        yield Fault(
            key="username",
            value=f'"{settings.username}"',
            problem="has no password, so the server refuses the log-in",
            remedy="Set password_file, or remove username.",
        )
    if settings.password and settings.username and settings.security == "none":
        yield Fault(
            key="password",
            value=HIDDEN,
            problem='is sent without encryption, because security = "none"',
            remedy='Set security = "starttls" or "tls".',
        )
    if settings.password and not settings.username:
        yield Fault(
            key="password",
            value=HIDDEN,
            problem="has no username, so it is not used",
            remedy="Set username, or remove the password.",
        )


KIND: Final = ChannelKind(
    table="email",
    about="e-mail",
    settings=EmailSettings,
    open=Email,
    templates=_templates,
    doubts=_doubts,
)
