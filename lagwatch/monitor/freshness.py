"""Age of a cluster's data: what is missing, and when it counts as stale."""

from dataclasses import dataclass
from typing import Final

from lagwatch.core.model import UNKNOWN, EpochMs
from lagwatch.core.words import duration
from lagwatch.ports.reports import Backlog, SourceHealth, SourceKind

_FRESH_MS: Final = 15_000
_TOGETHER_MS: Final = 10_000
"""Log ends and commits that end so close to each other ended for one reason."""
_CAUSES: Final = (
    SourceKind.CONNECTION,
    SourceKind.LOG_ENDS,
    SourceKind.OFFSETS_TOPIC,
    SourceKind.COMMITTED,
    SourceKind.TOPICS,
)
"""In the order in which they explain why there is no data."""
_NO_ANSWER: Final = frozenset({"connection", "timeout"})
"""`SourceError.kind` of a cluster that cannot be reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshFor:
    """Ages from which on data count as stale."""

    log_ends_ms: int = _FRESH_MS
    commits_ms: int = _FRESH_MS
    polled_ms: int = _FRESH_MS
    """Of commits that are polled."""

    def of_commits_ms(self, *, polled: bool) -> int:
        return self.polled_ms if polled else self.commits_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Up to when each part of a cluster is known; -1 not at all."""

    log_ends_ms: int
    commits_ms: int
    polled: bool
    """Commits are polled."""

    @property
    def until_ms(self) -> int:
        """Up to when both are known, as far as there are any; -1 when nothing is."""
        known = [each for each in (self.log_ends_ms, self.commits_ms) if each >= 0]
        return min(known, default=UNKNOWN)

    def is_stale(self, now_ms: EpochMs, fresh_for: FreshFor) -> bool:
        """True if one of them is too old."""
        ages = (
            (self.log_ends_ms, fresh_for.log_ends_ms),
            (self.commits_ms, fresh_for.of_commits_ms(polled=self.polled)),
        )
        return any(known >= 0 and now_ms - known > limit for known, limit in ages)


def missing(known: Known, backlog: Backlog) -> str:
    """What the first complete round still waits for."""
    if not backlog.ready:
        if backlog.total == 0:
            return "the backlog of commits has not been read yet"
        return f"backlog: {backlog.read:,} of {backlog.total:,} records of the offsets topic read"
    if known.log_ends_ms < 0:
        return "log ends not known yet"
    return "commits wait for log ends"


def cause(sources: dict[SourceKind, SourceHealth]) -> str:
    """The first problem that explains why nothing is read; "" when there is none."""
    failed = _failed(sources)
    return "" if failed is None else f"{failed.source}: {failed.message}"


def is_unreachable(sources: dict[SourceKind, SourceHealth]) -> bool:
    """True if the first of these problems is that no broker answers."""
    failed = _failed(sources)
    return failed is not None and failed.error_kind in _NO_ANSWER


def _failed(sources: dict[SourceKind, SourceHealth]) -> SourceHealth | None:
    failed = (sources[kind] for kind in _CAUSES if kind in sources and not sources[kind].ok)
    return next(failed, None)


def why_stale(known: Known, sources: dict[SourceKind, SourceHealth], now_ms: EpochMs) -> str:
    """Why data are old: the problem that is known, or else what is overdue."""
    found = cause(sources)
    if found:
        return found
    age_s = (now_ms - known.until_ms) / 1000
    return f"{_late(known)} {duration(age_s)} ago, and the collector has not said why"


def _late(known: Known) -> str:
    """The part that is late, when the other is not."""
    if known.log_ends_ms - known.commits_ms > _TOGETHER_MS and known.commits_ms >= 0:
        return "commits are known only up to"
    if known.commits_ms - known.log_ends_ms > _TOGETHER_MS:
        return "log ends were last read"
    return "the last report came"
