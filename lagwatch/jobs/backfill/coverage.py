"""The instant from which the offsets topic still has every commit.

Compaction takes away commits that a later one of the same group and partition made obsolete, up to
some point of each partition of the offsets topic; from that point on nothing is missing. Kafka
does not report that point, but two facts bound it:

- behind the last record offset that is missing, nothing was taken
- a record whose key occurred before: both were kept, so it is behind that point

The second is what counts where transactions leave marks, which take record offsets, too.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lagwatch.jobs.backfill.stream import shard_of

NEVER_MS: Final = 2**62
"""Takes the place of an instant: there is no instant from which commits are known complete."""
_HOLE: Final = "hole"
_PLACE: Final = frozenset({"cluster", "offsets_partition", "order", "missing_before"})
_KEY: Final = ("offsets_partition", "group", "topic", "partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Figures of the offsets topic as read."""

    commits: int
    malformed: int
    groups: int
    first_ms: int | None
    """The oldest commit."""
    topics: frozenset[tuple[int, str]]
    """Shard and topic, of all topics that its groups committed to."""
    begins: Mapping[int, int]
    """Shard → its oldest commit."""
    complete_from: Mapping[int, int]
    """Partition of the offsets topic → instant from which it has every commit.

    Only partitions that lack some.
    """
    partly: tuple["GroupCover", ...] = ()
    """Groups of these partitions, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCover:
    """A group that may have lost commits to compaction, and the commits that remain."""

    group: str
    offsets_partition: int
    from_ms: int
    """Instant from which all its commits are known; `NEVER_MS` if there is no such instant."""
    last_ms: int
    """Its last commit."""
    single: bool
    """True if every topic-partition has a single commit: the last one, which compaction keeps."""

    def sentence(self, instant: Callable[[int], str]) -> str:
        """For people."""
        if self.single:
            return (
                f"{self.group}: only its last commit is there, of {instant(self.last_ms)}; "
                "earlier ones are gone"
            )
        if self.from_ms == NEVER_MS:
            return f"{self.group}: commits may be gone up to the end of this time"
        return (
            f"{self.group}: all commits are there from {instant(self.from_ms)} on; "
            "earlier ones may be gone"
        )


def within(from_ms: int, to_ms: int) -> Callable[[DataFrame], DataFrame]:
    """Rows of a time; of later rows those after missing records, which may be of that time.

    Such a later row becomes a `hole`: it keeps its place and `missing_before` only.
    """

    def transform(offsets: DataFrame) -> DataFrame:
        time = F.col("commit_ms")
        later = (time >= to_ms) & (F.col("missing_before") > 0)
        is_hole = F.coalesce(later, F.lit(False))  # noqa: FBT003 Spark's own
        kept = offsets.where(time.isNull() | ((time >= from_ms) & (time < to_ms)) | later)
        return kept.select(
            *(
                F.col(name)
                if name in _PLACE
                else F.when(is_hole, F.lit(_HOLE) if name == "what" else None)
                .otherwise(F.col(name))
                .alias(name)
                for name in offsets.columns
            )
        )

    return transform


def look_at(offsets: DataFrame, shards: int) -> Read:
    """Count the rows and find from when on they are complete; reads `offsets` several times."""
    counted = offsets.transform(summaries).collect()
    named = offsets.transform(names(shards)).toArrow().to_pydict()
    begins: dict[int, int] = {}
    for shard, at_ms in zip(named["shard"], named["first_ms"], strict=True):
        begins[shard] = min(at_ms, begins.get(shard, at_ms))
    firsts = [row["first_ms"] for row in counted if row["first_ms"] is not None]
    holes = {row["offsets_partition"]: row["hole"] for row in counted if row["hole"] is not None}
    complete = complete_from(offsets, holes) if holes else {}
    return Read(
        commits=sum(row["commits"] for row in counted),
        malformed=sum(row["malformed"] for row in counted),
        groups=len(set(named["group"])),
        first_ms=min(firsts, default=None),
        topics=frozenset(zip(named["shard"], named["topic"], strict=True)),
        begins=begins,
        complete_from=complete,
        partly=_partly(offsets, complete) if complete else (),
    )


def _partly(offsets: DataFrame, complete: Mapping[int, int]) -> tuple[GroupCover, ...]:
    """The groups on partitions of the offsets topic that lack commits."""
    key = F.struct("topic", "partition")
    found = (
        offsets.where((F.col("what") == "commit") & F.col("offsets_partition").isin(*complete))
        .groupBy("group", "offsets_partition")
        .agg(
            F.max("commit_ms").alias("last_ms"),
            (F.count(F.lit(1)) == F.countDistinct(key)).alias("single"),
        )
        .orderBy("group")
        .select("group", "offsets_partition", "last_ms", "single")
    )
    return tuple(
        GroupCover(
            group=row["group"],
            offsets_partition=row["offsets_partition"],
            from_ms=complete[row["offsets_partition"]],
            last_ms=row["last_ms"],
            single=row["single"],
        )
        for row in found.collect()
    )


def committing(places: Collection[int]) -> Callable[[DataFrame], DataFrame]:
    """Names of the groups with commits on these partitions of the offsets topic."""

    def transform(offsets: DataFrame) -> DataFrame:
        there = F.col("offsets_partition").isin(*places)
        return offsets.where((F.col("what") == "commit") & there).select("group").distinct()

    return transform


def summaries(offsets: DataFrame) -> DataFrame:
    """Of each partition of the offsets topic: counts, and the order behind its last hole."""
    # the last offset of all may be the mark of a transaction: compaction never takes the last
    hole = (F.col("missing_before") > 0) & ~(
        (F.col("what") == "end") & (F.col("missing_before") == 1)
    )
    return (
        offsets.groupBy("offsets_partition")
        .agg(
            _count(F.col("what").isin("commit", "removed")).alias("commits"),
            _count(F.col("what") == "malformed").alias("malformed"),
            F.min("commit_ms").alias("first_ms"),
            F.max(F.when(hole, F.col("order"))).alias("hole"),
        )
        .select("offsets_partition", "commits", "malformed", "first_ms", "hole")
    )


def names(shards: int) -> Callable[[DataFrame], DataFrame]:
    """Groups with their shard and the topics that they committed to, each since when."""

    def transform(offsets: DataFrame) -> DataFrame:
        return (
            offsets.where(F.col("topic").isNotNull())
            .groupBy("group", "topic")
            .agg(F.min(F.coalesce("commit_ms", F.lit(0))).alias("first_ms"))
            .select(shard_of(F.col("group"), shards).alias("shard"), "group", "topic", "first_ms")
        )

    return transform


def complete_from(offsets: DataFrame, holes: Mapping[int, int]) -> dict[int, int]:
    """Instants from which partitions of the offsets topic have all commits.

    `holes` as by `summaries`.
    """
    some = offsets.where(F.col("offsets_partition").isin(*holes))
    whole = {
        row["offsets_partition"]: row["order"] for row in some.transform(first_repeats).collect()
    }
    orders = {place: min(order, whole.get(place, order)) for place, order in holes.items()}
    times = {
        row["offsets_partition"]: row["at_ms"]
        for row in some.transform(_times_from(orders)).collect()
    }
    return {place: times.get(place) or NEVER_MS for place in orders}


def first_repeats(offsets: DataFrame) -> DataFrame:
    """Of each partition of the offsets topic, the first record whose key occurred before."""
    records = offsets.where(F.col("what").isin("commit", "removed")).select(*_KEY, "order")
    firsts = records.groupBy(*_KEY).agg(F.min("order").alias("first"))
    return (
        records.join(firsts, on=list(_KEY), how="inner")
        .where(F.col("order") > F.col("first"))
        .groupBy("offsets_partition")
        .agg(F.min("order").alias("order"))
        .select("offsets_partition", "order")
    )


def _times_from(orders: Mapping[int, int]) -> Callable[[DataFrame], DataFrame]:
    """The time of the first record from an order on, by partition of the offsets topic."""
    known = F.create_map(*(F.lit(each) for pair in orders.items() for each in pair))

    def transform(offsets: DataFrame) -> DataFrame:
        return (
            offsets.where(F.col("order") >= known[F.col("offsets_partition")])
            .groupBy("offsets_partition")
            .agg(F.min("commit_ms").alias("at_ms"))
            .select("offsets_partition", "at_ms")
        )

    return transform


def _count(condition: Column) -> Column:
    return F.count(F.when(condition, 1))
