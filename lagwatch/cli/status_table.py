"""`status` for people: a table of groups, or of the partitions of one."""

from collections.abc import Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lagwatch.cli import words
from lagwatch.cli.output import plain
from lagwatch.cli.views import GroupView, PartitionView

_WORST_FIRST: Final = ("ERR", "WARN", "UNKNOWN", "NOTFOUND", "OK")
_NONE: Final = "-"


def draw_groups(screen: Console, groups: Sequence[GroupView]) -> None:
    """One line per group, the worst first."""
    many = len({group.cluster for group in groups}) > 1
    table = _table("CLUSTER") if many else _table()
    for title in ("GROUP", "STATUS", "RULE"):
        table.add_column(title, overflow="fold")
    for title in ("LAG", "TIME LAG", "COMPLETE"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("GREATEST LAG", overflow="fold")
    for group in sorted(groups, key=_badness):
        cells = (
            plain(group.group),
            _group_status(group),
            Text(group.rule or _NONE),
            Text(_total(group)),
            Text(words.time_lag(group.time_lag_s, group.time_lag_bound)),
            Text(f"{group.complete:.0%}"),
            plain(_greatest(group.max_lag)),
        )
        table.add_row(*((plain(group.cluster), *cells) if many else cells))
    screen.print(table)


def draw_group(screen: Console, group: GroupView) -> None:
    """The verdict on one group and all its partitions."""
    head = plain(f"{group.group} on {group.cluster}: ")
    head.append_text(_group_status(group))
    if group.rule:
        head.append(f"  {group.rule}")
    screen.print(head)
    if said := _sentence(group):
        screen.print(plain(said))
    facts = [
        f"lag {_total(group)}",
        f"time lag {words.time_lag(group.time_lag_s, group.time_lag_bound)}",
    ]
    if group.since_ms is not None:
        facts.insert(0, f"since {words.instant(group.since_ms)}")
    screen.print(Text(", ".join(facts)))
    table = _table("TOPIC")
    table.add_column("PARTITION", justify="right")
    for title in ("STATUS", "RULE"):
        table.add_column(title, overflow="fold")
    for title in ("LAG", "TIME LAG", "COMMITTED"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("OWNER", overflow="fold")
    for partition in group.partitions:
        table.add_row(*_cells(partition))
    screen.print(table)


def _sentence(group: GroupView) -> str:
    """What the rule of the group says of its worst partition; "" without a rule, as of Burrow."""
    if group.rule is None:
        return ""
    deciding = [each for each in group.partitions if each.rule == group.rule]
    worst = max(deciding, key=lambda each: each.current_lag or 0, default=None)
    if worst is None:
        return words.meaning(group.rule)
    said = words.sentence(group.rule, worst.evidence)
    return f"{worst.topic}/{worst.partition}: {said}." if said else words.meaning(group.rule)


def _cells(partition: PartitionView) -> tuple[Text, ...]:
    return (
        plain(partition.topic),
        Text(str(partition.partition)),
        _status(partition.status),
        Text(partition.unknown_reason or partition.rule or _NONE),
        Text(words.number(partition.current_lag)),
        Text(words.time_lag(partition.time_lag_s, partition.time_lag_bound)),
        Text(_NONE if partition.committed_offset is None else f"{partition.committed_offset:,}"),
        plain(f"{partition.client_id} {partition.owner}".strip() or _NONE),
    )


def _table(*first: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for title in first:
        table.add_column(title, overflow="fold")
    return table


def _status(status: str) -> Text:
    return Text(status, style=words.COLOURS.get(status, "dim"))


def _group_status(group: GroupView) -> Text:
    if group.stale:
        return Text(f"{group.status} (stale)", style="dim")
    return plain(group.note, style="dim") if group.note else _status(group.status)


def _badness(group: GroupView) -> tuple[int, int, str, str]:
    place = _WORST_FIRST.index(group.status) if group.status in _WORST_FIRST else 0
    return place, -(group.total_lag or 0), group.cluster, group.group


def _total(group: GroupView) -> str:
    if group.total_lag is None:
        return "unknown"
    if group.unknown_partitions:
        return f"{group.total_lag:,} + {group.unknown_partitions} unknown"
    return f"{group.total_lag:,}"


def _greatest(partition: PartitionView | None) -> str:
    if partition is None:
        return _NONE
    return f"{words.number(partition.current_lag)} {partition.topic}/{partition.partition}"
