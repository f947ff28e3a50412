"""Finds what a policy would have sent: replays recorded verdicts through the state machine."""

import csv
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from lagwatch.core.forecast import from_lags
from lagwatch.core.incident import QUIET, NoticeEvent, Observation, Policy, State, grade, step
from lagwatch.core.model import EpochMs, GroupStatus, Rule, TimeLagBound, TimeLagReason
from lagwatch.core.record import EventName, Kind, Records
from lagwatch.core.trouble import kinds_of
from lagwatch.errors import InputError
from lagwatch.notify.objectives import Objectives
from lagwatch.notify.policies import PolicyBook
from lagwatch.ports.history import HistoryRange, HistoryStore

_UNKNOWN: Final = -1
_BAD: Final = (GroupStatus.WARN, GroupStatus.ERR)
_LOSS_SHOWN_MS: Final = 3_600_000
"""The default of `evaluator.loss_shown_s`."""
_SPEED_OVER_MS: Final = 300_000
"""Time over which the speed of a group is computed from its lags."""
_BOUNDS: Final = {reason.word: reason.bound for reason in TimeLagReason}
_STATUSES: Final[Mapping[str, GroupStatus]] = {
    **{status.name: status for status in GroupStatus},
    "WARNING": GroupStatus.WARN,
    "ERROR": GroupStatus.ERR,
    "NOT_FOUND": GroupStatus.NOTFOUND,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One recorded verdict of one group."""

    at_ms: int
    cluster: str
    group: str
    seen: Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class WouldSend:
    """A notice that would have been sent."""

    at_ms: int
    cluster: str
    group: str
    policy: str
    event: NoticeEvent
    reason: str
    severity: str


@dataclass(slots=True)
class BackTest:
    """Replays samples, which must come in the order of time within each group."""

    book: PolicyBook
    samples: int = 0
    groups: set[tuple[str, str]] = field(default_factory=set)
    sent: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Notices by (cluster, group)."""
    _states: dict[tuple[str, str], State] = field(default_factory=dict)
    _policies: dict[tuple[str, str], Policy | None] = field(default_factory=dict)
    _lags: dict[tuple[str, str], list[tuple[int, int]]] = field(default_factory=dict)
    _missed: set[tuple[str, str]] = field(default_factory=set)
    """Groups that missed a limit when they were last seen bad."""
    _objectives: Objectives = field(init=False)

    def __post_init__(self) -> None:
        self._objectives = Objectives(self.book.objectives)

    def replay(self, samples: Iterable[Sample]) -> Iterator[WouldSend]:
        """The notices, as they would have been sent."""
        for sample in samples:
            self.samples += 1
            key = (sample.cluster, sample.group)
            self.groups.add(key)
            policy = self._policy(key)
            if policy is None:
                continue
            name = "/".join(key)
            lags = self._remember(key, sample)
            before = self._states.get(key, QUIET)
            seen, missed = self._objectives.judged(
                name,
                policy.name,
                sample.seen,
                sample.at_ms,
                partial(from_lags, lags),
                missed_before=before.incident is not None and key in self._missed,
            )
            if seen.status in (GroupStatus.WARN, GroupStatus.ERR):
                (self._missed.add if missed else self._missed.discard)(key)
            state, decision = step(
                before,
                grade(seen, policy),
                policy,
                EpochMs(sample.at_ms),
            )
            incident = state.incident or before.incident
            self._states[key] = state
            if decision.event is NoticeEvent.NOTHING or incident is None:
                continue
            self.sent[key] += 1
            yield WouldSend(
                at_ms=sample.at_ms,
                cluster=sample.cluster,
                group=sample.group,
                policy=policy.name,
                event=decision.event,
                reason=decision.reason.value,
                severity=incident.severity.name,
            )

    def _remember(self, key: tuple[str, str], sample: Sample) -> list[tuple[int, int]]:
        """The group's lags over the last minutes: the history has no rates."""
        lags = self._lags.setdefault(key, [])
        lags.append((sample.at_ms, sample.seen.total_lag))
        while sample.at_ms - lags[0][0] > _SPEED_OVER_MS:
            del lags[0]
        return lags

    def _policy(self, key: tuple[str, str]) -> Policy | None:
        if key not in self._policies:
            cluster, group = key
            self._policies[key] = self.book.of(cluster, group, ("",))[""]
        return self._policies[key]


def from_history(
    store: HistoryStore, *, from_ms: int, to_ms: int, cluster: str | None, group: str | None
) -> list[Sample]:
    """What is recorded of groups, in the order of time, with what they have lost by then.

    Acknowledgements are not recorded: what is lost counts until the end.
    """
    of = HistoryRange(
        kind=Kind.GROUP_SAMPLES,
        from_ms=from_ms,
        to_ms=to_ms,
        cluster=cluster,
        group=group,
        columns=("status", "rule", "complete", "total_lag", "time_lag_s", "time_lag_reason"),
    )
    events = replace(of, kind=Kind.EVENTS, columns=("event", "count", "detail"))
    losses = list(_losses(store.read(events)))
    samples = [sample for records in store.read(of) for sample in _rows(records)]
    return list(_with_losses(sorted(samples, key=lambda sample: sample.at_ms), losses))


class _Loss(NamedTuple):
    """Messages of a group that were deleted before it read them."""

    at_ms: int
    cluster: str
    group: str
    messages: int


class _LogEvent(NamedTuple):
    """A loss, or the re-creation of a topic."""

    at_ms: int
    cluster: str
    group: str
    topic: str
    partition: int
    event: str
    messages: int
    detail: str


def _losses(events: Iterable[Records]) -> Iterator[_Loss]:
    """The losses among events, with the messages that no earlier event of the same log has.

    Two instances write the same loss, and one that was killed writes it again.
    """
    logs: dict[tuple[str, str, str], dict[int, list[tuple[int, int]]]] = {}
    for event in sorted(found for records in events for found in _log_events(records)):
        topic = event.cluster, event.group, event.topic
        if event.event == EventName.TOPIC_RECREATED:
            logs.pop(topic, None)
            continue
        known = logs.setdefault(topic, {}).setdefault(event.partition, [])
        messages = _beyond(known, json.loads(event.detail)) if event.detail else event.messages
        yield _Loss(event.at_ms, event.cluster, event.group, max(0, messages))


def _log_events(records: Records) -> Iterator[_LogEvent]:
    columns = (
        records.at_ms().tolist(),
        records.text("cluster").tolist(),
        records.text("group").tolist(),
        records.text("topic").tolist(),
        records.numbers("partition").tolist(),
        records.text("event").tolist(),
        records.numbers("count").tolist(),
        records.text("detail").tolist(),
    )
    for at_ms, cluster, group, topic, partition, event, messages, detail in zip(
        *columns, strict=True
    ):
        if event in {EventName.RECORDS_LOST, EventName.TOPIC_RECREATED}:
            yield _LogEvent(
                *(at_ms, cluster or "", group or "", topic or ""),
                *(partition, event, messages, detail or ""),
            )


def _beyond(known: list[tuple[int, int]], lost: Mapping[str, int]) -> int:
    """Add offsets to disjoint ranges; returns how many of them none of those has."""
    first, end = lost["first"], lost["end"]
    touched = [each for each in known if each[0] <= end and first <= each[1]]
    begin = min([first, *(each[0] for each in touched)])
    until = max([end, *(each[1] for each in touched)])
    known[:] = [*(each for each in known if each not in touched), (begin, until)]
    return until - begin - sum(last - first for first, last in touched)


def _with_losses(samples: Iterable[Sample], losses: Iterable[_Loss]) -> Iterator[Sample]:
    """The samples, in the order of time, with the messages lost until then."""
    coming = sorted(losses, reverse=True)
    lost: Counter[tuple[str, str]] = Counter()
    newest_ms: dict[tuple[str, str], int] = {}
    for sample in samples:
        while coming and coming[-1].at_ms <= sample.at_ms:
            loss = coming.pop()
            lost[loss.cluster, loss.group] += loss.messages
            newest_ms[loss.cluster, loss.group] = loss.at_ms
        key = sample.cluster, sample.group
        seen = sample.seen
        if key in newest_ms:
            seen = replace(seen, lost=lost[key])
            if seen.kinds and sample.at_ms - newest_ms[key] < _LOSS_SHOWN_MS:
                seen = replace(seen, kinds=seen.kinds | {Rule.RECORDS_LOST})
        yield replace(sample, seen=seen)


def _rows(records: Records) -> Iterator[Sample]:
    columns = (
        records.at_ms().tolist(),
        records.text("cluster").tolist(),
        records.text("group").tolist(),
        records.text("status").tolist(),
        records.text("rule").tolist(),
        records.reals("complete").tolist(),
        records.numbers("total_lag").tolist(),
        records.reals("time_lag_s").tolist(),
        records.text("time_lag_reason").tolist(),
    )
    for at_ms, cluster, group, word, rule, complete, lag, time_lag_s, reason in zip(
        *columns, strict=True
    ):
        status = _STATUSES.get(word or "", GroupStatus.UNKNOWN)
        seen = Observation(
            status=status,
            kinds=kinds_of([rule or ""]) if status in _BAD else frozenset(),
            complete=0.0 if math.isnan(complete) else complete,
            total_lag=max(0, lag),
            **_time_lag(_UNKNOWN if math.isnan(time_lag_s) else round(time_lag_s * 1000), reason),
        )
        yield Sample(at_ms=at_ms, cluster=cluster or "", group=group or "", seen=seen)


def _time_lag(value_ms: int, reason: str | None) -> dict[str, Any]:
    """A recorded time lag as what it is: a bound is no measurement."""
    match _BOUNDS.get(reason or ""):
        case TimeLagBound.AT_MOST:
            return {"time_lag_most_ms": value_ms}
        case TimeLagBound.AT_LEAST:
            return {"time_lag_ms": value_ms, "time_lag_open": value_ms >= 0}
        case _:
            return {"time_lag_ms": value_ms}


def from_file(path: Path, *, from_ms: int, to_ms: int) -> list[Sample]:
    """Samples of a file, in the order of time: CSV, or JSON with one object a line.

    Columns: `at_ms`, `cluster`, `group`, `status`, and if known `total_lag`, `time_lag_s`,
    `complete`, `rule`, and `lost` (messages deleted unread, 0 once the loss is acknowledged).

    Raises:
        InputError: a row cannot be used, or the file not read.
    """
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = csv.DictReader(stream) if path.suffix.lower() == ".csv" else _objects(stream)
            samples = [_sample(row, number) for number, row in enumerate(rows)]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(index=0, field=str(path), problem=f"cannot be read: {error}") from error
    chosen = (sample for sample in samples if from_ms <= sample.at_ms < to_ms)
    return sorted(chosen, key=lambda sample: sample.at_ms)


def _objects(stream: Iterable[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(line for line in stream if line.strip()):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(index=number, field="", problem="is no JSON") from error
        if not isinstance(row, dict):
            raise InputError(index=number, field="", problem="is no object")
        yield row


def _sample(row: Mapping[str, Any], number: int) -> Sample:
    status = _STATUSES.get(str(row.get("status", "")).upper())
    if status is None:
        known = ", ".join(_STATUSES)
        raise InputError(index=number, field="status", problem=f"must be one of {known}")
    time_lag_s = _number(row, "time_lag_s", number, otherwise=None)
    return Sample(
        at_ms=int(_number(row, "at_ms", number, otherwise=None) or _missing(number, "at_ms")),
        cluster=str(row.get("cluster") or _missing(number, "cluster")),
        group=str(row.get("group") or _missing(number, "group")),
        seen=Observation(
            status=status,
            complete=_number(row, "complete", number, otherwise=1.0) or 0.0,
            total_lag=int(_number(row, "total_lag", number, otherwise=0.0) or 0),
            time_lag_ms=_UNKNOWN if time_lag_s is None else round(time_lag_s * 1000),
            lost=int(_number(row, "lost", number, otherwise=0.0) or 0),
            kinds=kinds_of([str(row.get("rule") or "")]) if status in _BAD else frozenset(),
        ),
    )


def _number(
    row: Mapping[str, Any], name: str, number: int, *, otherwise: float | None
) -> float | None:
    value = row.get(name)
    if value is None or value == "":
        return otherwise
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise InputError(index=number, field=name, problem="is no number") from error


def _missing(number: int, name: str) -> int:
    raise InputError(index=number, field=name, problem="is missing")
