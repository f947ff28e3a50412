"""The topics of one cluster from list to list: moved, re-created, gone."""

from collections.abc import Callable, Sequence

import numpy as np

from lagwatch.core.model import UNKNOWN, EpochMs
from lagwatch.core.snapshot import TopicColumns
from lagwatch.monitor.admission import Admission
from lagwatch.monitor.group_watch import GroupWatch, grown
from lagwatch.monitor.live import LiveState
from lagwatch.monitor.topics import TopicChange, change
from lagwatch.ports.reports import LogEnds, Topics

_GONE_AFTER_MS = 30_000
"""A topic missing from the metadata this long is deleted: a starting broker may forget one."""
_MOST_GONE = 10_000
"""Deleted topics that are remembered."""
_CUT_COUNTS_MS = 600_000
"""A log that was cut short this long before its topic has a new id was the new topic's."""
_NEVER_MS = 1 << 60


class TopicFollower:
    """Follows lists of topics; drops rows of topics that were deleted or created again."""

    def __init__(
        self,
        live: LiveState,
        watch: GroupWatch,
        admission: Admission,
        *,
        on_recreated: Callable[[Sequence[str]], None],
    ) -> None:
        """`on_recreated` is called with re-created topics before their rows are dropped."""
        self._live = live
        self._watch = watch
        self._admission = admission
        self._on_recreated = on_recreated
        self.ids: dict[str, str] = {}
        self.version = UNKNOWN
        """Of the last list; -1 while the list of a new collector is awaited."""
        self.listed_ms = EpochMs(UNKNOWN)
        self._hidden: frozenset[str] = frozenset()
        """Topics that the last list lacks because they may not be described."""
        self.missing_since: dict[str, int] = {}
        """Topics that the last list lacks, and since when."""
        self._gone_ids: dict[str, str] = {}
        """Ids of topics that were deleted, by name."""
        self._cut_ms: dict[str, int] = {}
        """Topics whose log was cut short or replaced: the last round in which it was not yet."""

    @property
    def sees_none(self) -> bool:
        """True if there are topics, and none of them may be described."""
        return bool(self._hidden) and not self._live.topics.names

    def listed(self, report: Topics, now_ms: EpochMs) -> None:
        """Take a list of topics in: move columns, forget what is of topics that were replaced."""
        found = change(self._live.topics, self.ids, report)
        read_ms = {
            name: self._ends_read_ms(self._live.topics.index[name])
            for name in found.recreated
            if name in self._live.topics.index
        }
        self._note_topics(found, self._back(report), now_ms)
        self._live.history.remap(found.source)
        self._live.partitions.remap(found.source)
        self._live.losses.starts.remap(found.source)
        self._live.topics, self.version = found.columns, report.version
        self._live.table.locate(self._live.topics)
        self._on_recreated(found.recreated)
        for name in found.recreated:
            self._begin_anew(name, report, read_ms.get(name, self._live.data_ms))
        self.ids |= {
            name: topic_id
            for name, topic_id in zip(report.names, report.ids, strict=True)
            if topic_id
        }
        # a topic that may not be described any more is not deleted: its rows stay, unknown
        gone = {*found.gone, *self._hidden} - report.hidden
        since_ms = dict.fromkeys(gone, int(now_ms)) | self.missing_since
        self._hidden = report.hidden
        self.missing_since = {
            name: at_ms
            for name, at_ms in since_ms.items()
            if name not in found.columns.index and name not in report.hidden
        }
        self._live.groups.topics_changed(report.names)
        self.listed_ms = now_ms

    def note_cuts(self, report: LogEnds, before: TopicColumns) -> None:
        """Log ends that went back: a re-created topic is read before its new id is known."""
        cut = np.flatnonzero((report.log_end >= 0) & (report.log_end < before.log_end))
        for topic in np.unique(np.searchsorted(before.first, cut, side="right") - 1).tolist():
            self._cut_ms[before.names[topic]] = self._ends_read_ms(topic)

    def drop_missing(self, now_ms: EpochMs) -> None:
        """Forget topics that stayed away while log ends were read all the same."""
        gone = [
            name
            for name, since in self.missing_since.items()
            if min(now_ms, self._live.data_ms) - since > _GONE_AFTER_MS
        ]
        for name in gone:
            rows = self._live.table.of_topic(name)
            newest = self._live.windows.newest[rows]
            # Kafka takes no commit to a topic that does not exist: it is there, if not visible
            committed_ms = self._live.windows.commit_ms[newest, rows] + self._live.skew.corrected_ms
            stays = (newest >= 0) & (committed_ms >= self.missing_since[name])
            self._watch.left(map(self._live.table.identity, rows[~stays].tolist()), now_ms)
            self._live.table.free(rows[~stays])
            self._gone_ids[name] = self.ids.pop(name, "")
            while len(self._gone_ids) > _MOST_GONE:
                del self._gone_ids[next(iter(self._gone_ids))]
            del self.missing_since[name]

    def _ends_read_ms(self, topic: int) -> EpochMs:
        """Up to when the log ends of all partitions of a topic were read, by its number."""
        first, end = self._live.topics.first[topic : topic + 2].tolist()
        read_ms = self._live.partitions.answered_ms[first:end]
        return EpochMs(
            min(self._live.data_ms, int(read_ms[read_ms >= 0].min(initial=self._live.data_ms)))
        )

    def _back(self, report: Topics) -> list[str]:
        """Topics that were deleted for longer, and were made anew under their names."""
        if not self._gone_ids:
            return []
        known = zip(report.names, report.ids, strict=True)
        back = {name: each for name, each in known if name in self._gone_ids}
        return [name for name, each in back.items() if self._gone_ids.pop(name) not in ("", each)]

    def _note_topics(self, found: TopicChange, back: Sequence[str], now_ms: EpochMs) -> None:
        recreated = (*found.recreated, *back)
        names = {*recreated, *grown(self._live.topics, found.columns)}
        rows = {name: self._live.table.of_topic(name).tolist() for name in names}
        groups = {
            name: sorted({self._live.table.identity(row)[0] for row in rows[name]})
            for name in names
        }
        self._watch.topics(groups, self._live.topics, found.columns, recreated, now_ms)

    def _begin_anew(self, topic: str, report: Topics, read_ms: EpochMs) -> None:
        """A topic was re-created: only commits of the new one stay.

        `read_ms`: up to when its log ends were read.

        Where commits name their topic's id it is known which these are; else those that are newer
        than the last round in which the log ends were the old topic's, and rows that came into
        being since the old topic was last seen.
        """
        seen_ms = max(self.listed_ms, read_ms)
        # while the topic was missing, log ends were read without it
        seen_ms = EpochMs(min(seen_ms, self.missing_since.get(topic, seen_ms)))
        cut_ms = self._cut_ms.pop(topic, UNKNOWN)
        if seen_ms - cut_ms <= _CUT_COUNTS_MS:
            seen_ms = EpochMs(cut_ms)
        skew_ms = self._live.skew.corrected_ms
        since_ms = report.first_commit_ms.get(topic, seen_ms - skew_ms + 1)
        born_ms = report.replaced_after_ms.get(topic, _NEVER_MS) - skew_ms
        # a poll that waits may hold the same offset again, which does not change the old row
        self._keep_newer(topic, since_ms, born_ms)
        self._admission.admit_all(self.listed_ms)
        self._keep_newer(topic, since_ms, born_ms)

    def _keep_newer(self, topic: str, since_ms: int, born_ms: int) -> None:
        """Keep rows of a topic with a commit since an instant, or that came into being since one.

        Kafka removes all commits of a topic that is deleted: a row that came after that is of the
        new topic, however late its id is known. If it is not, its removal is still to be read.
        """
        rows = self._live.table.of_topic(topic)
        newest = self._live.windows.newest[rows]
        newer = self._live.windows.commit_ms[newest, rows] >= since_ms
        born = (self._live.pace.since_s[rows].astype(np.int64) + 1) * 1000 > born_ms
        stays = (newest >= 0) & (newer | born)
        self._live.table.free(rows[~stays])
        kept = rows[stays]
        self._live.windows.keep_newest(kept)
        self._live.touched.append(kept)
        self._live.setbacks.clear(kept)
