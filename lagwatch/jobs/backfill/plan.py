"""The plan of a backfill of one cluster and its progress, so that a killed run can be continued.

The plan is a document of the jobs' state; each shard has one beside it that lists what of it is
written. Both are deleted when the plan is completed: then the rows themselves show it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from lagwatch.history.recorder import series_of
from lagwatch.jobs.backfill.inputs import Gap
from lagwatch.jobs.state import JobState

_ID_BYTES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPlan:
    """The work on one cluster."""

    cluster: str
    id: str
    """Part of the names of everything the plan writes."""
    basis: str
    """Digest of the source and the rules: a run with another digest starts over."""
    gaps: tuple[Gap, ...]
    shards: int

    @property
    def from_ms(self) -> int:
        return self.gaps[0].from_ms

    @property
    def to_ms(self) -> int:
        return self.gaps[-1].to_ms


def new_plan(
    cluster: str, basis: str, gaps: Sequence[Gap], *, shards: int, now_ms: int
) -> BackfillPlan:
    """A new plan; `now_ms` distinguishes it from others over the same time."""
    said = f"{cluster}\0{basis}\0{[(gap.from_ms, gap.to_ms) for gap in gaps]}\0{shards}\0{now_ms}"
    return BackfillPlan(
        cluster=cluster,
        id=blake2b(said.encode(), digest_size=_ID_BYTES).hexdigest(),
        basis=basis,
        gaps=tuple(gaps),
        shards=shards,
    )


def basis_of(*parts: object) -> str:
    """A digest of everything that the rows depend on, except time."""
    return blake2b(repr(parts).encode(), digest_size=_ID_BYTES).hexdigest()


class Plans:
    """The plan under way of each cluster."""

    def __init__(self, state: JobState) -> None:
        self._state = state

    def under_way(self, cluster: str) -> BackfillPlan | None:
        """The plan that an earlier run began and did not complete; None if there is none."""
        held = self._state.load(_name(cluster))
        return None if not held or held.get("ended") else _plan_of(cluster, held)

    def begin(self, plan: BackfillPlan) -> None:
        """Remember the plan before anything of it is written."""
        self._state.save(_name(plan.cluster), _plain(plan))

    def end(self, plan: BackfillPlan) -> None:
        """Delete the plan and its ledgers: it is completed or given up."""
        # a run that is killed in between neither goes on with it nor leaves its ledgers for ever
        self._state.save(_name(plan.cluster), {**_plain(plan), "ended": True})
        self._delete(plan)

    def tidy(self, cluster: str) -> None:
        """Delete what a run that was killed in `end` has left."""
        held = self._state.load(_name(cluster))
        if held.get("ended"):
            self._delete(_plan_of(cluster, held))

    def _delete(self, plan: BackfillPlan) -> None:
        for shard in range(plan.shards):
            self._state.delete(ledger_name(plan, shard))
        self._state.delete(_name(plan.cluster))

    def ledgers(self, plan: BackfillPlan) -> Iterator["Ledger"]:
        """Progress of each shard."""
        for shard in range(plan.shards):
            yield Ledger(self._state, plan, shard)


class Ledger:
    """Parts of one shard that are written; used by the task that writes them."""

    def __init__(self, state: JobState, plan: BackfillPlan, shard: int) -> None:
        """Read the progress of an earlier run, or of an earlier attempt at the task."""
        self._state = state
        self._name = ledger_name(plan, shard)
        held = state.load(self._name)
        self.shard = shard
        self.whole = bool(held.get("whole", False))
        """True when the whole shard is written."""
        self.counts: Mapping[str, int] = held.get("counts", {})
        """Counts of the shard; {} until it is complete."""
        self._parts: dict[str, int] = held.get("parts", {})

    @property
    def parts(self) -> int:
        """Parts that are written."""
        return len(self._parts)

    def until_ms(self) -> int:
        """The end of the last part that is written; -1 when none is."""
        return max(self._parts.values(), default=-1)

    def has(self, from_ms: int, to_ms: int) -> bool:
        """True if this part is written."""
        return self._parts.get(str(from_ms)) == to_ms

    def add(self, from_ms: int, to_ms: int) -> None:
        """A part is written."""
        self._parts[str(from_ms)] = to_ms
        self._save()

    def close(self, counts: Mapping[str, int]) -> None:
        """The shard is done."""
        self.whole, self.counts = True, dict(counts)
        self._save()

    def _save(self) -> None:
        value: dict[str, Any] = {
            "whole": self.whole,
            "counts": dict(self.counts),
            "parts": self._parts,
        }
        self._state.save(self._name, value)


def _plain(plan: BackfillPlan) -> dict[str, Any]:
    return {
        "id": plan.id,
        "basis": plan.basis,
        "gaps": [[gap.from_ms, gap.to_ms] for gap in plan.gaps],
        "shards": plan.shards,
    }


def _plan_of(cluster: str, held: Mapping[str, Any]) -> BackfillPlan:
    return BackfillPlan(
        cluster=cluster,
        id=str(held["id"]),
        basis=str(held["basis"]),
        gaps=tuple(Gap(from_ms=begin, to_ms=end) for begin, end in held["gaps"]),
        shards=int(held["shards"]),
    )


def ledger_name(plan: BackfillPlan, shard: int) -> str:
    """Name of the document of a shard."""
    return f"{_name(plan.cluster)}-{plan.id}-{shard:04d}"


def _name(cluster: str) -> str:
    return f"backfill-{series_of(cluster)}"
