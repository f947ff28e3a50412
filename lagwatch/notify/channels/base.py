"""What a channel is, and what a kind of channel declares.

Each file of this folder that holds a `KIND` is a kind of channel; `registry.py` finds it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar, runtime_checkable

from lagwatch.clock import Clock
from lagwatch.config.alerts_channels import ChannelSettings
from lagwatch.errors import Fault
from lagwatch.notify.notice import Message, Notice, ReportMessage

MOST_NOTICES: Final = 5000
"""Maximum notices in one message, whatever the channel allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelLimits:
    """What the receiver of a channel accepts in one message."""

    most_notices: int = MOST_NOTICES
    most_bytes: int | None = None
    """Of the notices as JSON; None: any number."""
    one_severity: bool = False
    """Never a warning and an error in one message."""


class Channel(Protocol):
    """A receiver of messages.

    The caller sets the deadline of each call; a channel retries nothing by itself.
    """

    @property
    def limits(self) -> ChannelLimits: ...

    async def send(self, message: Message) -> str:
        """Deliver; returns the answer of the receiver in one line.

        Raises:
            NotifyError: the receiver refused it or did not answer.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


@runtime_checkable
class KeepsAlive(Protocol):
    """A channel whose receiver forgets what is not repeated."""

    @property
    def keep_alive_s(self) -> float: ...

    async def keep_alive(self, standing: Sequence[Notice]) -> None:
        """Repeat the last notice of each open incident.

        Raises:
            NotifyError: no receiver accepted it.
        """
        ...


@runtime_checkable
class Beats(Protocol):
    """A channel that can carry the heartbeat."""

    @property
    def watchdog(self) -> bool:
        """True if it is to carry it."""
        ...

    async def beat(self, lives_s: float) -> None:
        """Say that all is well, for so many seconds.

        Raises:
            NotifyError: no receiver accepted it.
        """
        ...


@runtime_checkable
class TakesReports(Protocol):
    """A channel that can send more than alerts."""

    async def send_report_message(self, report_message: ReportMessage) -> str:
        """Deliver; returns the answer of the receiver in one line.

        Raises:
            NotifyError: the receiver refused it or did not answer.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateText:
    """A template in the settings of a channel."""

    option: str
    source: str
    html: bool = False
    url: bool = False
    secret: bool = False
    """No fault may quote any of it; a URL is always secret."""


S = TypeVar("S", bound=ChannelSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelKind(Generic[S]):
    """A kind of channel: the table `[alerts.TABLE.NAME]` and what is made of it."""

    table: str
    about: str
    """Meaning of the table, for the reference of options."""
    settings: type[S]
    open: Callable[[str, S, Clock], Channel]
    """(name, settings, clock) → channel; raises `ConfigError` if it cannot be used."""
    templates: Callable[[S], Iterable[TemplateText]] = lambda _: ()
    doubts: Callable[[S], Iterable[Fault]] = lambda _: ()
    """Settings that are allowed and cannot be meant; the keys are names of options."""
    takes_reports: bool = True
    needs_ends: bool = False
    """Its receiver keeps an incident open until it receives the end."""
