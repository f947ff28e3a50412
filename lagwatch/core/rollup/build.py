"""Samples into buckets: of every partition, of every topic of a group, of every group.

Every regular sample counts for its round; those left out because nothing had changed are
put back. Quantiles, sums and greatest values are over rounds; time in a status also sees changes
between rounds. Messages produced and consumed are the advance of log end and committed offset
between two samples without a missing round in between, and the time of that is the time between the
instants that these offsets are of; gaps do not count.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.record import (
    BY_WORST,
    EventName,
    Records,
    SampleReason,
    Text,
    is_word,
)
from lagwatch.core.rollup.count import (
    Level,
    Moves,
    Values,
    count,
    held_by_worst,
    moved,
    with_moves,
)
from lagwatch.core.rollup.rows import (
    GROUP,
    PARTITION,
    TOPIC,
    BucketSpan,
    Keys,
    changes,
    coded,
    sorted_by,
    to_records,
)
from lagwatch.core.rollup.tally import concat_tallies, greatest, sums, worst_owner
from lagwatch.core.rollup.timeline import Rounds, Series, Timeline, timeline

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]

SAMPLE_COLUMNS: Final = (
    *("group", "topic", "partition", "at_ms", "committed_offset", "commit_ms", "log_end_offset"),
    *("log_end_ms", "log_start_offset", "lag", "time_lag_s", "status", "owner", "reason", "source"),
)
ROUND_COLUMNS: Final = (
    *("group", "at_ms", "status", "total_lag", "time_lag_s", "observed", "unchanged"),
    *("previous_ms", "interval_ms", "rebalances", "reason", "source"),
)
EVENT_COLUMNS: Final = ("group", "event", "at_ms", "count", "source")

_NEVER: Final[dict[str, tuple[str, ...]]] = {
    GROUP: ("STOP", "STALL", "REWIND"),
    PARTITION: ("ERR", "NOTFOUND"),
    TOPIC: ("ERR", "NOTFOUND"),
}
"""Statuses that a level cannot have: their time is unknown, not 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """Rows of one cluster, in any order, each record once; the columns named above."""

    samples: Records
    rounds: Records
    """Kind `group_samples`."""
    events: Records


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    """Keys of the series of a level; all [series], -1 where a key does not apply."""

    group: Int64
    topic: Int64
    partition: Int64

    @property
    def size(self) -> int:
        return int(self.group.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """Groups and topics, sorted; elsewhere they are numbers."""

    groups: tuple[str, ...]
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """Columns that all levels share."""

    span: BucketSpan
    rounds: Rounds
    interval_ms: int
    """Of groups that have no rounds."""

    def timeline(self, rows: Series) -> Timeline:
        """Of rows some of which may have been left out."""
        return timeline(rows, self.rounds, interval_ms=self.interval_ms)

    def whole_timeline(self, rows: Series) -> Timeline:
        """Of series that have a row of their own in every round."""
        return timeline(rows, self.rounds.whole(), interval_ms=self.interval_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A level with what its series are about."""

    name: str
    series: _Series
    level: Level


def roll_up(raw: Raw, span: BucketSpan, *, cluster: str, interval_ms: int) -> Records:
    """Rows of the kind of the span, sorted by key; only buckets of which something is known.

    The rows must reach back before the span: to a round in which each group was written whole.
    `interval_ms` is the distance of rounds where the rows do not say.
    """
    names = _Names(
        groups=_words(raw.samples.text("group"), raw.rounds.text("group")),
        topics=_words(raw.samples.text("topic")),
    )
    frame = _Frame(span=span, rounds=_rounds(raw.rounds, names), interval_ms=interval_ms)
    partitions, topics = _partitions(raw.samples, names, frame)
    groups = _groups(raw, names, frame)
    groups = _with_partitions(groups, partitions, partitions.series.group, span)
    # in the order of the words for the levels
    parts = [_known(part) for part in (groups, partitions, topics)]
    keys = _keys(parts, names, span, cluster)
    return to_records(span.kind, keys, concat_tallies([part.level.tally for part in parts]))


# partitions and topics


def _partitions(samples: Records, names: _Names, frame: _Frame) -> tuple[_Part, _Part]:
    about, rows, of_rows = _by_partition(samples, names)
    values = Values.of(of_rows, lag="lag")
    line = frame.timeline(rows)
    level = count(rows, values, line, frame.span, series=about.size)
    moves = Moves(
        lag=values.lag,
        log_end_offset=of_rows.numbers("log_end_offset"),
        log_end_ms=of_rows.numbers("log_end_ms"),
        committed_offset=of_rows.numbers("committed_offset"),
        commit_ms=of_rows.numbers("commit_ms"),
        log_start_offset=of_rows.numbers("log_start_offset"),
        owner=of_rows.text("owner"),
    )
    level = moved(level, rows, moves, line, frame.span)
    partitions = _Part(name=PARTITION, series=about, level=level)
    return partitions, _topics(partitions, rows, values, line, frame)


def _by_partition(samples: Records, names: _Names) -> tuple[_Series, Series, Records]:
    group = coded(samples.text("group"), names.groups)
    topic = coded(samples.text("topic"), names.topics)
    partition = samples.numbers("partition")
    order = sorted_by(group, topic, partition, samples.at_ms())
    if order is not None:
        samples = samples.take(order)
        group, topic, partition = group[order], topic[order], partition[order]
    new = changes(group, topic, partition)
    about = _Series(group=group[new], topic=topic[new], partition=partition[new])
    rows = Series(
        series=np.cumsum(new) - 1,
        group=group,
        at_ms=samples.at_ms(),
        regular=is_word(samples.text("reason"), SampleReason.INTERVAL),
    )
    return about, rows, samples


def _topics(
    partitions: _Part, rows: Series, values: Values, of_rows: Timeline, frame: _Frame
) -> _Part:
    """Topics of groups: in every round the sum of lags, the worst time lag and status."""
    entries = of_rows.entries
    about = partitions.series
    new = changes(about.group, about.topic)
    of_series = np.cumsum(new) - 1
    unknown = np.full(int(np.count_nonzero(new)), UNKNOWN, np.int64)
    series = _Series(group=about.group[new], topic=about.topic[new], partition=unknown)
    row, at_ms = entries.row[entries.regular], entries.at_ms[entries.regular]
    first, place = _same_round(of_series[rows.series[row]], at_ms)
    size = first.size
    of_rounds = Series(
        series=of_series[rows.series[row[first]]],
        group=rows.group[row[first]],
        at_ms=at_ms[first],
        regular=np.ones(size, np.bool_),
    )
    summed = Values(
        lag=sums(values.lag[row], place, size),
        time_lag_ms=greatest(values.time_lag_ms[row], place, size),
        status=greatest(values.status[row], place, size),
        source=greatest(values.source[row], place, size),
    )
    span = frame.span
    line = frame.whole_timeline(of_rounds)
    level = count(of_rounds, summed, line, span, series=series.size)
    cell = span.moved_cells(partitions.level.cell, of_series)
    worst = greatest(partitions.level.tally.worst, cell, level.cell.size)
    by_topic = replace(rows, series=of_series[rows.series])
    held = _held_by_topics(level.tally.held_ms, by_topic, values.status, of_rows.end_ms, span)
    tally = replace(level.tally, worst=np.maximum(level.tally.worst, worst), held_ms=held)
    topics = _Part(name=TOPIC, series=series, level=replace(level, tally=tally))
    return _with_partitions(topics, partitions, of_series, span)


def _held_by_topics(
    held_ms: Int64, rows: Series, status: Int64, end_ms: Int64, span: BucketSpan
) -> Int64:
    """Time in each status, by cell: as counted by rounds, and anew of topics with changes between.

    The series of `rows` are topics here, which have a row for each of their partitions.
    """
    size = held_ms.shape[0] // span.buckets
    changed = np.zeros(size, np.bool_)
    changed[rows.series[~rows.regular]] = True
    some = changed[rows.series]
    if not some.any():
        return held_ms
    spans = (rows.series[some], rows.at_ms[some], end_ms[some])
    anew = held_by_worst(*spans, status[some], span, size=size)
    return np.where(np.repeat(changed, span.buckets)[:, np.newaxis], anew, held_ms)


def _same_round(topic: Int64, at_ms: Int64) -> tuple[NDArray[np.intp], Int64]:
    """Of every topic and round one entry, in order, and for every entry the number of these."""
    if at_ms.size == 0:
        return np.zeros(0, np.intp), at_ms
    least = int(at_ms.min())
    width = int(at_ms.max()) - least + 1
    _, first, place = np.unique(
        topic * width + (at_ms - least), return_index=True, return_inverse=True
    )
    return first, place


def _with_partitions(part: _Part, partitions: _Part, of_series: Int64, span: BucketSpan) -> _Part:
    """Add what is the sum, or the worst, of the partitions; `of_series` says whose each is."""
    theirs = partitions.level.tally
    size = part.level.cell.size
    cell = span.moved_cells(partitions.level.cell, of_series)
    owner_lag, owner = worst_owner(theirs.owner_lag, theirs.owner, cell, size)
    tally = replace(
        part.level.tally,
        commits=sums(theirs.commits, cell, size),
        owner_lag=owner_lag,
        owner=owner,
    )
    finest = span.finest
    number = np.arange(partitions.level.produced.count.size)
    place, places = finest.moved_cells(number, of_series), part.series.size * finest.buckets
    level = with_moves(
        replace(part.level, tally=tally),
        partitions.level.produced.joined(place, places),
        partitions.level.consumed.joined(place, places),
        span,
    )
    return replace(part, level=level)


# groups


def _groups(raw: Raw, names: _Names, frame: _Frame) -> _Part:
    of_rows = raw.rounds
    group = coded(of_rows.text("group"), names.groups)
    order = sorted_by(group, of_rows.at_ms())
    if order is not None:
        of_rows, group = of_rows.take(order), group[order]
    rows = Series(
        series=group,
        group=group,
        at_ms=of_rows.at_ms(),
        regular=is_word(of_rows.text("reason"), SampleReason.INTERVAL),
    )
    values = Values.of(of_rows, lag="total_lag")
    size = len(names.groups)
    level = count(rows, values, frame.whole_timeline(rows), frame.span, series=size)
    number, unknown = np.arange(size, dtype=np.int64), np.full(size, UNKNOWN, np.int64)
    counted = of_rows.numbers("rebalances") >= 0
    rebalances = _rebalances(raw.events, names, frame.span, rows, counted)
    tally = replace(level.tally, rebalances=rebalances)
    return _Part(
        name=GROUP,
        series=_Series(group=number, topic=unknown, partition=unknown),
        level=replace(level, tally=tally),
    )


def _rebalances(
    events: Records, names: _Names, span: BucketSpan, rows: Series, counted: Bools
) -> Int64:
    """Rebalances per bucket; 0 where they were counted and the group has no event."""
    size = len(names.groups) * span.buckets
    group = coded(events.text("group"), names.groups)
    wanted = is_word(events.text("event"), EventName.REBALANCE) & span.within(events.at_ms())
    wanted &= group >= 0
    found = sums(
        events.numbers("count")[wanted],
        span.cells(group[wanted], events.at_ms()[wanted]),
        size,
    )
    watched = counted & rows.regular & span.within(rows.at_ms)
    cell = span.cells(rows.series[watched], rows.at_ms[watched])
    found[cell] = np.maximum(found[cell], 0)
    return found


def _rounds(rows: Records, names: _Names) -> Rounds:
    regular = rows.take(is_word(rows.text("reason"), SampleReason.INTERVAL))
    group = coded(regular.text("group"), names.groups)
    order = sorted_by(group, regular.at_ms())
    if order is not None:
        regular, group = regular.take(order), group[order]
    return Rounds(
        group=group,
        at_ms=regular.at_ms(),
        unchanged=regular.numbers("unchanged"),
        previous_ms=regular.numbers("previous_ms"),
        interval_ms=regular.numbers("interval_ms"),
    )


# rows


def _known(part: _Part) -> _Part:
    """Only buckets of which something is known, and no time in a status there never is."""
    level, tally = part.level, part.level.tally
    some = (tally.samples > 0) | (tally.held_ms >= 0).any(axis=1) | (tally.rebalances > 0)
    index = np.flatnonzero(some)
    tally = tally.take(index)
    for word in _NEVER[part.name]:
        tally.held_ms[:, BY_WORST.index(word)] = UNKNOWN
    return replace(part, level=replace(level, cell=level.cell[index], tally=tally))


def _keys(parts: Sequence[_Part], names: _Names, span: BucketSpan, cluster: str) -> Keys:
    series = [part.level.cell // span.buckets for part in parts]
    sizes = [part.level.cell.size for part in parts]

    def of(name: str) -> Int64:
        columns = [getattr(part.series, name)[row] for part, row in zip(parts, series, strict=True)]
        return np.concatenate(columns)

    bucket = np.concatenate([part.level.cell % span.buckets for part in parts])
    return Keys(
        cluster=Text.same(cluster, bucket.size),
        level=Text(
            np.repeat(np.arange(len(parts), dtype=np.int32), sizes),
            tuple(part.name for part in parts),
        ),
        group=Text(of("group").astype(np.int32), names.groups),
        topic=Text(of("topic").astype(np.int32), names.topics),
        partition=of("partition").astype(np.int32),
        bucket_ms=span.from_ms + bucket * span.step_ms,
    )


def _words(*texts: Text) -> tuple[str, ...]:
    return tuple(sorted({word for text in texts for word in text.words}))
