"""What a channel is: it sends a message, and says whether trying again may help."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from lagwatch.notify.bulletin import Bulletin
from lagwatch.notify.notice import Message, Notice
from lagwatch.notify.packing import Packing


class Channel(Protocol):
    """A receiver of messages.

    Each call is given a deadline by its caller; a channel retries nothing by itself.
    """

    @property
    def packing(self) -> Packing:
        """What its receiver accepts in one message."""
        ...

    async def send(self, message: Message) -> str:
        """Deliver; returns what the receiver answered, in one line.

        Raises:
            NotifyError: it was refused or not answered.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


@runtime_checkable
class KeepsAlive(Protocol):
    """A channel whose receiver forgets what is not repeated."""

    @property
    def keep_alive_s(self) -> float: ...

    async def keep_alive(self, standing: Sequence[Notice]) -> None:
        """Repeat what is open: the last notice of each open incident.

        Raises:
            NotifyError: no receiver accepted it.
        """
        ...


@runtime_checkable
class TakesBulletins(Protocol):
    """A channel for more than alerts."""

    async def send_bulletin(self, bulletin: Bulletin) -> str:
        """Deliver; returns what the receiver answered, in one line.

        Raises:
            NotifyError: it was refused or not answered.
        """
        ...
