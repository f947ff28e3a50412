"""What the pollers of commits share."""

from dataclasses import dataclass

from lagwatch.clock import Clock
from lagwatch.pollers.facts import Facts
from lagwatch.pollers.filters import Filters
from lagwatch.pollers.groups import GroupPoller
from lagwatch.pollers.known import LastOffsets
from lagwatch.pollers.loop import Send
from lagwatch.pollers.topics import TopicPoller


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What every poller of commits uses: filters, other pollers, where to send; one per cluster."""

    filters: Filters
    topics: TopicPoller
    groups: GroupPoller
    facts: Facts
    last: LastOffsets
    """Follows every report of commits: each poller that sends one notes it here."""
    clock: Clock
    send: Send
