"""The request for a backfill, and its result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum, unique
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit, urlunsplit

from lagwatch.config import ClusterSettings
from lagwatch.config.elasticsearch import ElasticsearchSettings
from lagwatch.core.words import duration
from lagwatch.jobs.backfill.coverage import NEVER_MS, GroupCover
from lagwatch.jobs.backfill.inputs import Gap
from lagwatch.jobs.backfill.replay import ReplaySettings


@unique
class From(StrEnum):
    """Where the past is read."""

    KAFKA = "kafka"
    PARQUET = "parquet"
    TELEGRAF = "telegraf"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRequest:
    """What to fill, and from where."""

    source: From
    where: str = ""
    """Folder or URL of copies; index pattern of Telegraf's documents."""
    clusters: Mapping[str, ClusterSettings] = field(default_factory=dict)
    """Configured clusters."""
    only: tuple[str, ...] = ()
    """Clusters to fill; () all."""
    elasticsearch: ElasticsearchSettings = field(default_factory=ElasticsearchSettings)
    """Where Telegraf's documents are."""
    since_ms: int
    until_ms: int
    replay: ReplaySettings
    dry_run: bool = False
    shards: int | None = None
    """Shards of groups; None: chosen by what Spark has to offer."""


class ProgressDisplay(Protocol):
    """Shows the progress of a backfill."""

    def step(self, what: str) -> None:
        """A step of unknown length begins."""
        ...

    def move(self, done: int, total: int) -> None:
        """Number of parts written, out of about `total`."""
        ...


_SHOWN: Final = 20
"""Groups that the terminal names; the event in the history has more."""
_MOST_NAMED: Final = 1000
_BEFORE: Final = frozenset({"samples_before", "group_samples_before", "events_before"})


class SilentProgress:
    """A `ProgressDisplay` that shows nothing."""

    def step(self, what: str) -> None:
        """Nothing."""

    def move(self, done: int, total: int) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBackfill:
    """Result for one cluster; for a dry run, the expected result."""

    cluster: str
    gaps: tuple[Gap, ...]
    rounds: int
    """Instants to fill."""
    resumed: bool = False
    """True if this run continued an earlier one."""
    commits: int = 0
    groups: int = 0
    malformed: int = 0
    first_commit_ms: int | None = None
    complete_from: Mapping[int, int] = field(default_factory=dict)
    """Partitions of the offsets topic that lack commits → instant from which they have all."""
    partly: tuple[GroupCover, ...] = ()
    """Groups of these partitions that may lack commits of the time."""
    swallowed: tuple[str, ...] = ()
    """Groups of these partitions with later commits and none left of the time, by name."""
    held_back: Mapping[int, int] = field(default_factory=dict)
    """Partitions of the offsets topic with an open transaction → instant from which that hides
    commits: from the first of them on nothing was filled."""
    unseen: tuple[str, ...] = ()
    """Why log ends of some topics were not available."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """samples, group_samples, events: rows written, with `_before` those of an earlier run;
    unknown_lag, incomplete, stale; rejected."""

    def count(self, what: str) -> int:
        return self.counts.get(what, 0)

    def coverage(self) -> dict[str, Any]:
        """The covered and uncovered times, for the event in the history."""
        return {
            "gaps": [[gap.from_ms, gap.to_ms] for gap in self.gaps],
            "commits": self.commits,
            "groups": self.groups,
            "first_commit_ms": self.first_commit_ms,
            "malformed": self.malformed,
            "offsets_partitions_with_missing_commits": {
                str(place): None if at_ms == NEVER_MS else at_ms
                for place, at_ms in sorted(self.complete_from.items())
            },
            "groups_from": {
                group.group: None if group.from_ms == NEVER_MS else group.from_ms
                for group in self.partly[:_MOST_NAMED]
            },
            "groups_without_commits": list(self.swallowed[:_MOST_NAMED]),
            "groups_with_missing_commits": len(self.partly) + len(self.swallowed),
            "topics_without_log_ends": list(self.unseen),
            **dict(self.counts),
        }

    def lines(self, *, dry_run: bool) -> list[str]:
        """For people."""
        if not self.rounds:
            held = [f"  not covered: {reason}" for reason in self.not_covered()]
            left = "" if held else ", every interval is recorded"
            return [f"{self.cluster}: nothing to fill{left}", *held]
        seconds = sum(gap.seconds for gap in self.gaps)
        again = " (begun by an earlier run)" if self.resumed else ""
        head = (
            f"{self.cluster}: {_number(len(self.gaps), 'gap')}, {duration(seconds)}, "
            f"{_number(self.rounds, 'round')} from {_instant(self.gaps[0].from_ms)} "
            f"to {_instant(self.gaps[-1].to_ms)}{again}"
        )
        lines = [head]
        if self.commits or not self.counts:
            lines.append(
                f"  {_number(self.commits, 'commit')} of {_number(self.groups, 'group')} read, "
                f"the first of {_instant(self.first_commit_ms)}"
            )
        if not dry_run:
            lines.append(
                f"  written: {_number(self.count('samples'), 'sample')}, "
                f"{_number(self.count('group_samples'), 'sample')} of groups, "
                f"{_number(self.count('events'), 'event')}"
            )
            earlier = sum(number for what, number in self.counts.items() if what in _BEFORE)
            if earlier:
                lines.append(f"  written by an earlier run: {_number(earlier, 'row')}")
        lines += [f"  not covered: {reason}" for reason in self.not_covered()]
        lines += [f"    {group.sentence(_instant)}" for group in self.partly[:_SHOWN]]
        if len(self.partly) > _SHOWN:
            lines.append(f"    … and {_number(len(self.partly) - _SHOWN, 'group')} more")
        return lines

    def not_covered(self) -> list[str]:
        """Sentences on times that stay unfilled and values that stay unknown, with the reason."""
        said = list(self.unseen)
        if self.held_back:
            places = ", ".join(str(place) for place in sorted(self.held_back))
            said.append(
                f"everything from {_instant(min(self.held_back.values()))} on: a transaction has "
                f"been open since then in partition {places} of the offsets topic, and which "
                "commits behind it count is not known before it ends. Run it again then; "
                "`kafka-transactions.sh find-hanging` shows transactions that never end"
            )
        if self.complete_from:
            last = max(self.complete_from.values())
            until = "the end of this time" if last == NEVER_MS else _instant(last)
            places = _number(len(self.complete_from), "partition")
            verb = "lacks" if len(self.complete_from) == 1 else "lack"
            left_out = self.count("incomplete")
            said.append(
                f"{places} of the offsets topic {verb} records up to {until}: compaction removed "
                "them, or they were marks of transactions. A group has no rows before the instant "
                "from which all its commits are known to be there"
                + (f": {_number(left_out, 'sample')} of groups left out" if left_out else "")
            )
        if self.swallowed:
            more = len(self.swallowed) - _SHOWN
            said.append(
                f"{_number(len(self.swallowed), 'group')} of these partitions with commits after "
                "this time and none left of it, which may have been active in it or are newer: "
                + ", ".join(self.swallowed[:_SHOWN])
                + (f" and {_number(more, 'more group')}" if more > 0 else "")
            )
        if self.count("unknown_lag"):
            said.append(
                f"the log end of {_number(self.count('unknown_lag'), 'sample')} is not known: "
                "retention or compaction removed the messages of that time, or the topic cannot be "
                "seen; "
                "their lag is null"
            )
        if self.count("stale"):
            said.append(f"{_number(self.count('stale'), 'round')} left out for want of log ends")
        if self.malformed:
            said.append(f"{_number(self.malformed, 'record')} could not be decoded")
        if self.count("rejected"):
            said.append(f"{_number(self.count('rejected'), 'row')} were rejected by the store")
        return said


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillResult:
    """Result of the run; for a dry run, the expected result."""

    clusters: tuple[ClusterBackfill, ...]
    dry_run: bool

    def lines(self) -> list[str]:
        """For the terminal."""
        if not self.clusters:
            return ["there is no cluster to fill"]
        return [line for cluster in self.clusters for line in cluster.lines(dry_run=self.dry_run)]

    def total(self, what: str) -> int:
        """A count over all clusters."""
        return sum(cluster.count(what) for cluster in self.clusters)


def telegraf_of(where: str, configured: ElasticsearchSettings) -> tuple[ElasticsearchSettings, str]:
    """Address of Telegraf's documents and the pattern of their indices, from `URL[/INDICES]`."""
    if not where:
        return configured, ""
    parts = urlsplit(where)
    host = parts.netloc.rpartition("@")[2]
    url = urlunsplit((parts.scheme, host, "", "", ""))
    given = {**dict(configured), "urls": (url,)}
    if "@" in parts.netloc:
        given |= {
            "username": unquote(parts.username or ""),
            "password": unquote(parts.password or ""),
        }
    return ElasticsearchSettings.model_validate(given), parts.path.strip("/")


def wanted_of(names: Sequence[str], only: Sequence[str]) -> tuple[str, ...]:
    """The requested clusters among those that exist."""
    return tuple(name for name in names if not only or name in only)


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _instant(at_ms: int | None) -> str:
    if at_ms is None:
        return "-"
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
