"""Progress that jobs keep outside of Kafka and that is read where they keep it."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from lagwatch.core.model import UNKNOWN, EpochMs
from lagwatch.errors import ProgressError
from lagwatch.pollers.surroundings import Surroundings
from lagwatch.ports.progress import ProgressReader, Step
from lagwatch.ports.reports import Progress, ProgressKnown, SourceKind

Places = Sequence[tuple[str, int, int]]
"""Topic, partition and the next offset to be read."""

_AWAY_ROUNDS: Final = 3


class ProgressPoller:
    """Reads all jobs at once; one that cannot be read is a problem of its own."""

    source = SourceKind.PROGRESS

    def __init__(
        self,
        readers: Mapping[str, ProgressReader],
        around: Surroundings,
        *,
        interval_s: float,
    ) -> None:
        self._around = around
        self._jobs = [_Job(name, reader) for name, reader in readers.items()]
        self._away_after_ms = round(_AWAY_ROUNDS * interval_s * 1000)

    async def poll_once(self) -> Sequence[str]:
        if not self._around.topics.listed:
            return ()  # which topics exist is not known yet
        problems = await asyncio.gather(*(self._look(job) for job in self._jobs))
        known = {job.name: job.known_ms for job in self._jobs if job.known_ms >= 0}
        if known:
            await self._around.send(
                ProgressKnown(until_ms=known, away_after_ms=self._away_after_ms)
            )
        return [problem for problem in problems if problem]

    async def _look(self, job: "_Job") -> str:
        """Send what is new; returns what is wrong, or ""."""
        if self._around.groups.is_listed(job.name):
            return (
                f"{job.name}: Kafka has a group of this name, which is shown. Give the job another "
                "name in the configuration."
            )
        now_ms = self._around.clock.now_ms()
        try:
            steps = await job.reader.read()
        except ProgressError as error:
            return f"{job.name}: {error}"
        for step in steps:
            await self._around.send(job.report(step, self._places(step), now_ms))
        if not steps and (again := job.again(self._places)) is not None:
            await self._around.send(again)
        job.known_ms = now_ms
        if missing := sorted(
            name for name in job.topics if not self._around.topics.partitions_of(name)
        ):
            return (
                f"{job.name}: its progress names topics that the cluster does not have or does not "
                f"show: {', '.join(missing)}. They are left out."
            )
        return ""

    def _places(self, step: Step) -> Places:
        """Those of partitions that exist and are watched: others have no log end."""
        return [
            (topic, partition, offset)
            for topic, offsets in step.positions.items()
            if self._around.filters.topic(topic)
            for partition, offset in offsets.items()
            if partition < self._around.topics.partitions_of(topic)
        ]


class _Job:
    """One job and what was sent of it."""

    def __init__(self, name: str, reader: ProgressReader) -> None:
        self.name = name
        self.reader = reader
        self.known_ms = EpochMs(UNKNOWN)
        """Up to when its progress is known."""
        self._newest = Step(positions={}, at_ms=None)
        self._sent_ms = UNKNOWN
        self._sent = 0
        """Partitions in the newest report."""

    @property
    def topics(self) -> Iterable[str]:
        return self._newest.positions

    def report(self, step: Step, places: Places, now_ms: int) -> Progress:
        """A new step; each has an instant after that of the one before."""
        at_ms = now_ms if step.at_ms is None else min(step.at_ms, now_ms)
        # object stores give times in whole seconds, in which several batches may end
        self._sent_ms = max(at_ms, self._sent_ms + 1)
        self._newest = step
        return self._progress(places)

    def again(self, visible: Callable[[Step], Places]) -> Progress | None:
        """The newest step once more, where partitions of it have come into sight since."""
        places = visible(self._newest)
        return self._progress(places) if len(places) > self._sent else None

    def _progress(self, places: Places) -> Progress:
        self._sent = len(places)
        topics, partitions, offsets = zip(*places, strict=True) if places else ((), (), ())
        return Progress(
            group=self.name,
            kind=self.reader.kind,
            topic=topics,
            partition=partitions,
            offset=offsets,
            at_ms=EpochMs(self._sent_ms),
            reads=tuple(self._newest.positions) or None,
        )
