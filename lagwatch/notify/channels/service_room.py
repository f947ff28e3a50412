"""What fits into a message of a service of Apprise, which cuts nothing unless its URL says so."""

from dataclasses import dataclass
from typing import Any, Final

from lagwatch.notify.message_words import body, overview, subject
from lagwatch.notify.notice import Message, ReportMessage
from lagwatch.notify.words import cut

_LONGEST_TITLE: Final = 250
_LONGEST_BODY: Final = 4000
_BETWEEN: Final = 2
"""Characters that Apprise puts between the two where a service has no title."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Characters that a service takes."""

    title: int = _LONGEST_TITLE
    body: int = _LONGEST_BODY
    together: bool = False
    """True if the title counts in the body."""

    def message(self, message: Message) -> tuple[str, str]:
        """(title, body); what is left out is counted, and the link is kept if there is room."""
        title = self._title(subject(message), len(overview(message)))
        return title, _body(message, self._left(title))

    def report(self, report_message: ReportMessage) -> tuple[str, str]:
        """(title, body)."""
        title = self._title(report_message.subject, 0)
        left = self._left(title)
        return title, cut(report_message.text, left) if left > 0 else ""

    def _title(self, text: str, link_length: int) -> str:
        if not self.together:
            return cut(text, self.title)
        kept = link_length + _BETWEEN
        # of a short message, as an SMS, the link takes up to a half
        return cut(text, min(self.title, self.body - kept if kept <= self.body // 2 else self.body))

    def _left(self, title: str) -> int:
        return self.body - (len(title) + _BETWEEN if self.together and title else 0)


def room_of(service: Any) -> Room:  # noqa: ANN401 a class of a plugin
    """The room of a service as its plugin declares it; that of lagwatch where it is less."""
    import apprise

    if service.overflow_mode == apprise.OverflowMode.SPLIT:
        return Room()  # its URL asks for several messages instead of a shorter one
    longest_title, longest_body = service.title_maxlen, service.body_maxlen
    return Room(
        title=min(_LONGEST_TITLE, longest_title) if longest_title > 0 else _LONGEST_TITLE,
        body=min(_LONGEST_BODY, longest_body) if longest_body > 0 else _LONGEST_BODY,
        together=longest_title <= 0 or service.overflow_amalgamate_title,
    )


def _body(message: Message, limit: int) -> str:
    text = body(message, limit)
    if len(text) <= limit:
        return text
    link = overview(message)
    room = limit - len(link) - 1
    if not link or room < -1:
        return cut(body(message, limit, linked=False), limit) if limit > 0 else ""
    lines = cut(body(message, room, linked=False), room) if room > 0 else ""
    return f"{lines}\n{link}".strip()
