"""The breakdown of a month for those who mend rules: what pages falsely, what is found late."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from tests.bench.month.score import FalseCall, Outcome, Score, count

_SHOWN_KINDS: Final = 40
_SHOWN_CALLS: Final = 3
_SHOWN_TROUBLES: Final = 25


def lines(scores: Mapping[str, Score]) -> Iterator[str]:
    """All of it, rule set by rule set."""
    for rules, score in scores.items():
        yield ""
        yield f"== rules {rules}: {score.group_days:.0f} group-days, {score.pages} pages"
        yield from _calls("false page", score.false_pages, score)
        yield from _calls("false warning", score.false_warnings, score)
        yield from _troubles(score)


def _calls(what: str, calls: Sequence[FalseCall], score: Score) -> Iterator[str]:
    hours = sum(call.length_s for call in calls) / 3600
    yield ""
    yield (
        f"{what}s: {len(calls)}, {score.per_1000_group_days(len(calls)):.3g} per 1,000 group-days,"
        f" {hours:.0f} h in all; by kind of life, what happened last, rule:"
    )
    for (kind, cause, rule), found in list(count(calls).items())[:_SHOWN_KINDS]:
        lengths = np.array([call.length_s for call in found])
        groups = len({call.group for call in found})
        yield (
            f"  {len(found):6} {kind:15} {cause:18} {rule:20}"
            f" {groups} groups, {np.median(lengths) / 60:.0f} min median"
        )
        # a group that is called a hundred times is one example
        examples = {call.group: call for call in reversed(found)}.values()
        for call in sorted(examples, key=lambda each: each.start_s)[:_SHOWN_CALLS]:
            yield f"           {clock(call.start_s)} {call.row or call.group} ({call.about})"
            told = " ".join(f"{name}={value}" for name, value in call.evidence.items())
            yield f"             {told} | {call.cause or 'nothing happened'}"


def _troubles(score: Score) -> Iterator[str]:
    yield ""
    yield f"troubles: {len(score.troubles)}, missed {len(score.missed)}; by label and kind of life:"
    found: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for each in score.troubles:
        found[each.label, "all"].append(each)
        found[each.label, each.kind].append(each)
    for (label, kind), outcomes in sorted(found.items()):
        delays = [each.delay_s for each in outcomes if each.delay_s is not None]
        missed = len(outcomes) - len(delays)
        middle, late = np.percentile(delays, (50, 99)) if delays else (np.nan, np.nan)
        yield (
            f"  {label:13} {kind:15} {len(outcomes):5}, missed {missed:3},"
            f" delay median {middle:.0f} s, p99 {late:.0f} s"
        )
    yield "missed:"
    yield from map(_outcome, score.missed[:_SHOWN_TROUBLES])
    yield "found latest:"
    late_first = sorted(
        (each for each in score.troubles if each.delay_s), key=lambda each: -(each.delay_s or 0)
    )
    yield from map(_outcome, late_first[:_SHOWN_TROUBLES])


def _outcome(outcome: Outcome) -> str:
    delay = "missed" if outcome.delay_s is None else f"{outcome.delay_s:.0f} s late"
    return (
        f"  {delay:13} {outcome.label:13} {outcome.group}: {clock(outcome.true_s)} to"
        f" {clock(outcome.end_s)} ({outcome.about}; up to {outcome.worst_time_lag_s:.0f} s behind)"
    )


def clock(at_s: float) -> str:
    """An instant as `day 3 04:05:06`."""
    days, seconds = divmod(int(at_s), 86_400)
    return f"day {days} {seconds // 3600:02}:{seconds % 3600 // 60:02}:{seconds % 60:02}"
