"""Sending over HTTP: TLS, authentication, which answers are worth another try, and chats."""

import asyncio
import json
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lagwatch import __version__
from lagwatch.config.alerts_channels import AuthenticatedSettings, HttpChannelSettings
from lagwatch.config.section import MAX_PORT
from lagwatch.core.words import printable
from lagwatch.errors import ConfigError, Fault, NotifyError, Refusal
from lagwatch.hiding import hide
from lagwatch.key_pair import load_key_pair
from lagwatch.notify.channels.base import ChannelLimits
from lagwatch.notify.notice import Message, ReportMessage

if TYPE_CHECKING:  # loaded with the first channel: the configuration alone needs none of it
    import httpx

RefusedIn = Callable[[int, str], Refusal | None]
"""(status 2xx, body) → why that is a refusal; None if the message was accepted."""
_TEMPORARY: Final = frozenset({408, 425, 429})
"""Refusals that may end by themselves: the message is tried again."""
RETRYABLE: Final = (Refusal.UNAVAILABLE, Refusal.FAILED)
_NOT_ACCEPTED: Final = frozenset({401, 402, 403, 404, 405, 407, 410})
"""Refusals of the address or the credentials: somebody has to mend the receiver or its options."""
_SHOWN_CHARACTERS: Final = 200
_MOST_READ: Final = 16_384
"""Bytes read of the body of an answer: a receiver cannot fill the memory."""
_READ_WITHIN_S: Final = 2.0
_LONGEST_WAIT_S: Final = 3600.0


class HttpSender:
    """One client with its connections, for one channel."""

    def __init__(
        self,
        channel: str,
        settings: HttpChannelSettings,
        *,
        cert_file: Path | None = None,
        key_file: Path | None = None,
    ) -> None:
        """Read the certificates.

        Raises:
            ConfigError: they cannot be used.
        """
        import httpx

        from lagwatch.notify import egress

        self._channel = channel
        tls = _tls(channel, settings, cert_file, key_file)
        limited = settings.allow_hosts or not settings.private_networks
        self._client = httpx.AsyncClient(
            verify=tls,
            transport=egress.transport(settings, tls) if limited else None,
            auth=_auth(settings),
            headers={
                "User-Agent": f"lagwatch/{__version__}",
                "Accept-Encoding": "identity",
                **_bearer(settings),
            },
            timeout=settings.timeout_s,
            follow_redirects=False,
        )

    async def send(
        self,
        method: str,
        url: str,
        *,
        body: bytes,
        headers: Mapping[str, str],
        refused: RefusedIn | None = None,
    ) -> str:
        """The answer in one line, if it is 2xx and `refused` finds no error in its body.

        Raises:
            NotifyError: the answer is another, or none came; the URL, which may hold a secret, is
                not in the text.
        """
        import httpx

        given = [(name.encode(), _one_line(value)) for name, value in headers.items()]
        try:
            request = self._client.build_request(method, url, content=body, headers=given)
            _check_port(request)
            response = await self._sent(request)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise self._failed(f"the URL cannot be used: {error}", retryable=False) from error
        except httpx.TimeoutException as error:
            raise self._failed("no answer in time", retryable=True) from error
        except (httpx.RemoteProtocolError, httpx.WriteError, httpx.ReadError) as error:
            reason = str(error) or type(error).__name__
            raise NotifyError(
                channel=self._channel,
                message=f"the connection was cut: {reason}",
                retryable=True,
                refusal=Refusal.CUT,
            ) from error
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise self._failed(f"no answer: {reason}", retryable=True) from error
        text = await _beginning(response)
        shown, status = _shown(response, text or ""), response.status_code
        why = None if response.is_success else refusal(status)
        # a body that cannot be read says nothing: then the status is the answer
        if response.is_success and refused is not None and text is not None:
            why = refused(status, text.strip())
        if why is None:
            return hide(shown)
        if response.is_success and why is Refusal.NOT_ACCEPTED:
            shown = f"{shown} (no answer of a receiver of this kind: is the address right?)"
        raise NotifyError(
            channel=self._channel,
            message=shown,
            retryable=why in RETRYABLE,
            retry_after_s=retry_after_s(response.headers),
            refusal=why,
        )

    async def _sent(self, request: "httpx.Request") -> "httpx.Response":
        import httpx

        try:
            return await self._client.send(request, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL):
            raise
        except Exception as error:  # the library may raise anything
            text = f"no answer: {type(error).__name__}: {error}"
            raise self._failed(text, retryable=True) from error

    async def close(self) -> None:
        await self._client.aclose()

    def _failed(self, text: str, *, retryable: bool) -> NotifyError:
        return NotifyError(channel=self._channel, message=text, retryable=retryable)


class ChatWebhook(ABC):
    """The incoming webhook of a chat: each message is a JSON document in the form of that chat."""

    limits = ChannelLimits()

    def __init__(self, name: str, url: str, settings: HttpChannelSettings) -> None:
        self._url = url
        self._http = HttpSender(name, settings)

    @abstractmethod
    def payload(self, message: Message) -> dict[str, Any]:
        """The document of a message."""

    @abstractmethod
    def report_message(self, report_message: ReportMessage) -> dict[str, Any]:
        """The document of a report."""

    @abstractmethod
    def refused(self, status: int, body: str) -> Refusal | None:
        """Why an answer with status 2xx is still a refusal; None if the message was accepted."""

    async def send(self, message: Message) -> str:
        return await self._post(message.id, self.payload(message))

    async def send_report_message(self, report_message: ReportMessage) -> str:
        return await self._post(report_message.id, self.report_message(report_message))

    async def _post(self, key: str, document: dict[str, Any]) -> str:
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        return await self._http.send(
            "POST", self._url, body=as_json(document), headers=headers, refused=self.refused
        )

    async def close(self) -> None:
        await self._http.close()


def as_json(document: Mapping[str, Any]) -> bytes:
    """JSON as UTF-8: receivers count bytes, and an escaped character may take twelve."""
    return json.dumps(document, ensure_ascii=False).encode(errors="replace")


def json_object(text: str) -> Mapping[str, Any]:
    """The JSON object of an answer; {} if it is not a JSON object."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _one_line(value: str) -> bytes:
    """A header's value as UTF-8; a line break would end it, and it may hold no control characters.

    Source: RFC 9110, section 5.5
    """
    return printable_line(value).encode(errors="replace")


def refusal(status: int) -> Refusal:
    """What an answer other than 2xx means for the next attempt."""
    if status in _TEMPORARY:
        return Refusal.UNAVAILABLE
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Refusal.FAILED
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return Refusal.TOO_LARGE
    if status in _NOT_ACCEPTED or status < HTTPStatus.BAD_REQUEST:
        return Refusal.NOT_ACCEPTED
    return Refusal.CONTENT


def _shown(response: "httpx.Response", body: str) -> str:
    """The answer in one line."""
    text = printable_line(body)
    if len(text) > _SHOWN_CHARACTERS:
        text = text[:_SHOWN_CHARACTERS] + "…"
    head = printable_line(f"{response.status_code} {response.reason_phrase}")
    return f"{head}: {text}" if text else head


async def _beginning(response: "httpx.Response") -> str | None:
    """The first bytes of the body as text.

    None: it did not come in time, or is compressed, which was not asked for.
    """
    import httpx

    found, ended = bytearray(), True
    try:
        async with asyncio.timeout(_READ_WITHIN_S):
            async for part in response.aiter_raw():
                found += part
                if len(found) >= _MOST_READ:
                    break
    except (TimeoutError, httpx.HTTPError):
        ended = False  # the receiver has answered all the same
    finally:
        await response.aclose()
    if response.headers.get("Content-Encoding", "identity") != "identity":
        return None
    return found[:_MOST_READ].decode(errors="replace") if ended or found else None


def printable_line(text: str) -> str:
    """On one line and without control characters: it is shown on terminals."""
    return printable(" ".join(text.split()))


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds or an HTTP date; None when it says nothing, or nothing sensible."""
    value = headers.get("Retry-After", "").strip()
    if value.isdigit():
        return min(float(value), _LONGEST_WAIT_S)
    try:
        until = parsedate_to_datetime(value)
        now = parsedate_to_datetime(headers.get("Date", ""))
        return min(max(0.0, (until - now).total_seconds()), _LONGEST_WAIT_S)
    except (TypeError, ValueError):
        return None


def _check_port(request: "httpx.Request") -> None:
    """The network libraries raise errors of their own for a port that is too large.

    Raises:
        httpx.InvalidURL: the port is.
    """
    import httpx

    if (request.url.port or 0) > MAX_PORT:
        raise httpx.InvalidURL(f"its port is more than {MAX_PORT}")


def _auth(settings: HttpChannelSettings) -> "httpx.BasicAuth | None":
    import httpx

    if not isinstance(settings, AuthenticatedSettings) or settings.username is None:
        return None
    password = settings.password.get_secret_value() if settings.password else ""
    return httpx.BasicAuth(settings.username, password)


def _bearer(settings: HttpChannelSettings) -> dict[str, str]:
    if not isinstance(settings, AuthenticatedSettings) or settings.token is None:
        return {}
    return {"Authorization": f"Bearer {settings.token.get_secret_value()}"}


def _tls(
    channel: str, settings: HttpChannelSettings, cert_file: Path | None, key_file: Path | None
) -> ssl.SSLContext:
    return tls_context(
        channel,
        ca_file=settings.ca_file,
        verify=settings.verify,
        cert_file=cert_file,
        key_file=key_file,
    )


def tls_context(
    channel: str,
    *,
    ca_file: Path | None,
    verify: bool,
    cert_file: Path | None = None,
    key_file: Path | None = None,
) -> ssl.SSLContext:
    """How a channel trusts and is trusted.

    Raises:
        ConfigError: a file is no certificate or key.
    """
    try:
        context = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
        if cert_file is not None:
            load_key_pair(context, cert_file, key_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            [
                Fault(
                    key=f"alerts channel {channel}",
                    value="",
                    problem=f"its certificates cannot be used: {error}",
                    remedy="Check ca_file, cert_file and key_file.",
                )
            ]
        ) from error
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
