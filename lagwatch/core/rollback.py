"""Plans a rollback to the offsets of a deployment: what can be set, read again, or is deleted."""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final

from lagwatch.core.progress_kinds import PROGRESS_KINDS

Place = tuple[str, int]
"""Topic and partition."""
_IN_KAFKA: Final = frozenset({"classic", "consumer", "streams", "share", "unknown"})
"""Kinds of groups of which Kafka keeps the progress; other kinds are words of what keeps it."""


def no_plan(group: str, kind: str) -> str | None:
    """Why no offsets for Kafka's tool can set a group of this kind back; None: they can.

    The tool would make a Kafka group of the same name for progress that is kept elsewhere. A share
    group has no committed offset; the position recorded of it is not its start offset.

    Source: Kafka, tools/consumer/group/ShareGroupCommandOptions.java: `--reset-offsets` takes
    `--to-earliest`, `--to-latest` or `--to-datetime` and no file.
    """
    if kind == "share":
        return (
            f"{group} is a share group, which has no committed offsets: reset each topic to the "
            "time of the deployment with kafka-share-groups.sh --reset-offsets --topic TOPIC "
            "--to-datetime TIME"
        )
    if kind in _IN_KAFKA:
        return None
    read = PROGRESS_KINDS.get(kind)
    kept_in, set_back = (read.kept_in, read.set_back) if read else (kind, "set it back there")
    return f"{group} keeps its progress in {kept_in}, not in Kafka: {set_back}"


@unique
class RollbackState(StrEnum):
    """Whether the recorded offset of a partition can be set."""

    EXACT = "exact"
    """The recorded offset still exists."""
    DELETED = "deleted"
    """Records from the recorded offset on were deleted; the log start offset comes nearest."""
    BEYOND_END = "beyond_end"
    """The log ends before the recorded offset: the topic was created anew, or cut short."""
    RECREATED = "recreated"
    """The topic was created anew since: the recorded offset means another record, or none."""
    NOT_COMMITTED_THEN = "not_committed_then"
    """No offset was committed at the deployment, so none can be set."""
    NOT_VISIBLE = "not_visible"
    """The log's bounds are not known: the topic was deleted, or has no leader, or is hidden."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is known of a partition now; None is unknown."""

    committed: int | None
    log_start: int | None
    log_end: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPartition:
    """One partition of a plan."""

    topic: str
    partition: int
    state: RollbackState
    recorded_offset: int | None
    """Committed at the deployment."""
    offset: int | None
    """To be set; None: leave this partition as it is."""
    committed_offset: int | None
    """Committed now."""
    read_again: int | None
    """Messages between `offset` and the committed offset; None when either is unknown."""
    skipped: int | None
    """Messages that would not be read, because the group has not come as far as `offset`.

    Those below the log start are deleted, and not counted.
    """
    deleted: int
    """Offsets from the recorded one on that no longer exist; 0 of a topic that was created anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackOffsets:
    """Offsets that bring a group back to a deployment."""

    partitions: tuple[RollbackPartition, ...]
    """By topic and partition."""

    @property
    def read_again(self) -> int:
        """Messages, over the partitions where it is known."""
        return sum(each.read_again or 0 for each in self.partitions)

    @property
    def read_again_unknown(self) -> int:
        """Partitions that would be set and of which it is not known."""
        settable = (each for each in self.partitions if each.offset is not None)
        return sum(each.read_again is None for each in settable)

    @property
    def skipped(self) -> int:
        """Messages, over the partitions where it is known."""
        return sum(each.skipped or 0 for each in self.partitions)

    @property
    def deleted(self) -> int:
        """Offsets."""
        return sum(each.deleted for each in self.partitions)

    def csv(self) -> str:
        """Lines `topic,partition,offset`, as `kafka-consumer-groups --from-file` takes them.

        Source: Kafka, tools/consumer/group/CsvUtils.java, `CsvRecordNoGroup`: no header. Names of
        topics have neither commas nor quotes (`Topic.LEGAL_CHARS`).
        """
        return "".join(
            f"{each.topic},{each.partition},{each.offset}\n"
            for each in self.partitions
            if each.offset is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan(RollbackOffsets):
    """Offsets that bring a group back to a deployment. A plan only: it sets nothing."""

    cluster: str
    group: str
    deployed_ms: int
    """ID of the deployment."""
    version: str
    at_ms: int
    """As of when the log's bounds and the committed offsets are."""
    members: int | None
    """Kafka resets offsets only of a group without members; None: not known."""


def partitions(
    recorded: Mapping[Place, int | None],
    now: Mapping[Place, Standing],
    *,
    recreated: Container[str] = (),
) -> Iterator[RollbackPartition]:
    """One entry for each partition of the deployment or of now, by topic and partition.

    `recreated`: topics that were created anew since the deployment.
    """
    nothing = Standing(committed=None, log_start=None, log_end=None)
    for place in sorted({*recorded, *now}):
        state = _state(recorded.get(place), now.get(place, nothing), anew=place[0] in recreated)
        yield _partition(place, state, recorded.get(place), now.get(place, nothing))


def _partition(
    place: Place, state: RollbackState, recorded: int | None, now: Standing
) -> RollbackPartition:
    offset, deleted = recorded, 0
    if state is RollbackState.RECREATED:
        offset = now.log_start
    elif state is RollbackState.DELETED:
        offset = now.log_start
        deleted = (now.log_start or 0) - (recorded or 0)
    elif state is RollbackState.BEYOND_END:
        offset = now.log_end
    elif state is not RollbackState.EXACT:
        offset = None
    read_again = skipped = None
    if offset is not None and now.committed is not None:
        read_again = max(0, now.committed - offset)
        skipped = max(0, offset - max(now.committed, now.log_start or 0))
    return RollbackPartition(
        topic=place[0],
        partition=place[1],
        state=state,
        recorded_offset=recorded,
        offset=offset,
        committed_offset=now.committed,
        read_again=read_again,
        skipped=skipped,
        deleted=deleted,
    )


def _state(recorded: int | None, now: Standing, *, anew: bool) -> RollbackState:
    if recorded is None:
        return RollbackState.NOT_COMMITTED_THEN
    if now.log_start is None or now.log_end is None:
        return RollbackState.NOT_VISIBLE
    if anew:
        return RollbackState.RECREATED
    if recorded < now.log_start:
        return RollbackState.DELETED
    if recorded > now.log_end:
        return RollbackState.BEYOND_END
    return RollbackState.EXACT
