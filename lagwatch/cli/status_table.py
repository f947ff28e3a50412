"""`status` for people: a line for each group, or the partitions of one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lagwatch.cli import words
from lagwatch.cli.group_table import Line, losses, outlook, table, trouble
from lagwatch.cli.output import in_columns, plain, terminal_width
from lagwatch.cli.views import GroupView, PartitionView, in_trouble_since
from lagwatch.core.advise import rate
from lagwatch.core.words import client

_NONE: Final = "-"
_INDENT: Final = "    "


def draw_groups(screen: Console, groups: Sequence[GroupView], *, clusters: int = 0) -> None:
    """One line per group, the worst first, as `top` shows them; `clusters`: how many were asked."""
    lines = [_line(group) for group in groups]
    lines.sort(key=lambda line: (*trouble(line), line.group, line.cluster))
    screen.print(table(lines, width=terminal_width(screen), clusters=clusters))


def draw_group(screen: Console, group: GroupView) -> None:
    """The verdict on one group and all its partitions."""
    head = plain(f"{group.group} on {group.cluster}: ")
    head.append_text(_group_status(group))
    if group.rule:
        head.append(f"  {group.rule}")
    screen.print(head)
    if group.stale and group.at_ms is not None:
        as_of = words.instant(group.at_ms - round(group.data_age_s * 1000))
        screen.print(plain(f"The data are old: what follows is as of {as_of}."))
    if said := _sentence(group):
        screen.print(plain(said))
    if group.cause_sentence:
        screen.print(plain(group.cause_sentence))
    line = _line(group)
    facts = []
    if line.since_ms is not None:
        at_least = "at least " if line.since_at_least else ""
        facts.append(f"in trouble since {at_least}{words.instant(line.since_ms)}")
    elif group.trouble_since_ms is not None:
        at_least = "at least " if group.trouble_since_at_least else ""
        facts.append(f"open incident since {at_least}{words.instant(group.trouble_since_ms)}")
    if group.handled:
        facts.append(group.handled)
    left = f" ({group.left_behind_lag:,} in topics left behind)" if group.left_behind_lag else ""
    facts += [
        f"lag {_total(group)}{left}",
        *losses(line),
        f"time lag {words.time_lag(group.time_lag_s, group.time_lag_bound)}",
    ]
    if group.state:
        facts.append(f"state {group.state}, {words.members(group.members)}")
    if line.consumed_per_s is not None:
        facts.append(f"reads {rate(line.consumed_per_s)}/s")
    screen.print(Text(", ".join((*facts, *outlook(line)))))
    _draw_partitions(screen, group.partitions)


_TITLES: Final = (
    *("TOPIC", "PARTITION", "STATUS", "RULE", "LAG", "READABLE", "LOST", "TIME LAG"),
    *("COMMITTED", "OWNER"),
)
_NUMBERS: Final = frozenset({"PARTITION", "LAG", "READABLE", "LOST", "TIME LAG", "COMMITTED"})
_WHERE_ANY: Final = frozenset({"READABLE", "LOST"})
"""Columns that are left out where they are empty."""
_BELOW: Final = frozenset({"TOPIC", "RULE", "READABLE", "LOST", "OWNER"})
"""Not in the line of a partition where the terminal is too narrow for all columns."""


def _draw_partitions(screen: Console, partitions: Sequence[PartitionView]) -> None:
    """A table, or on a narrow terminal two lines for each: no number is cut."""
    rows = [_cells(partition) for partition in partitions]
    titles = [
        title for title in _TITLES if title not in _WHERE_ANY or any(row[title] for row in rows)
    ]
    widths = {
        title: max(cell_len(title), *(row[title].cell_len for row in rows), 0) for title in titles
    }
    if sum(widths.values()) + 2 * len(widths) <= screen.width:
        _draw_table(screen, titles, rows)
        return
    kept = [title for title in titles if title not in _BELOW]
    right = [nth for nth, title in enumerate(kept) if title in _NUMBERS]
    kept_widths = [widths[title] for title in kept]
    head = [Text(title) for title in kept]
    screen.print(in_columns(head, kept_widths, right=right, style="bold"))
    for topic, each in groupby(zip(partitions, rows, strict=True), lambda pair: pair[0].topic):
        screen.print(plain(topic, style="bold"))
        for partition, row in each:
            screen.print(in_columns([row[title] for title in kept], kept_widths, right=right))
            readable, lost = row["READABLE"].plain, row["LOST"].plain
            said = (
                row["RULE"].plain,
                readable and f"{readable} of the lag can be read",
                lost and f"{lost} lost",
                client(partition.client_id, partition.owner),
            )
            screen.print(plain(_INDENT + "; ".join(filter(None, said))))


def _draw_table(screen: Console, titles: Sequence[str], rows: Sequence[Mapping[str, Text]]) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for title in titles:
        table.add_column(title, justify="right" if title in _NUMBERS else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(row[title] for title in titles))
    screen.print(table)


def _line(group: GroupView) -> Line:
    since_ms, at_least = in_trouble_since(
        group.since_ms,
        group.trouble_since_ms,
        at_least=group.since_at_least,
        incident_at_least=group.trouble_since_at_least,
    )
    line = Line(
        cluster=group.cluster,
        group=group.group,
        status=group.status,
        worst=group.worst,
        state=group.state,
        lag=group.total_lag,
        readable_lag=group.readable_lag,
        unknown=group.unknown_partitions,
        time_lag_s=group.time_lag_s,
        members=group.members,
        stale=group.stale,
        time_lag_bound=group.time_lag_bound,
        rule=group.rule or "",
        since_ms=since_ms,
        since_at_least=at_least,
        at_ms=group.at_ms,
        note=group.note,
        lost=group.lost,
        lost_at_most=group.lost_at_most,
        unknown_because=group.unknown_because,
        cause=group.cause,
        incident="open" if group.trouble_since_ms is not None else "",
        handled=group.handled,
    )
    if group.stale:
        return line
    return replace(
        line,
        consumed_per_s=group.consumed_per_s,
        lag_trend_per_s=group.lag_trend_per_s,
        catch_up_s=group.catch_up_s,
        catch_up_reason=group.catch_up_reason,
        steady=group.steady,
        quiet=group.quiet,
    )


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


def _cells(partition: PartitionView) -> dict[str, Text]:
    """Of a partition, by title."""
    lag, readable = partition.current_lag, partition.readable_lag
    committed = partition.committed_offset
    less = lag is not None and readable is not None and readable < lag
    return {
        "TOPIC": plain(partition.topic),
        "PARTITION": Text(str(partition.partition)),
        "STATUS": _status(partition.status),
        "RULE": Text(partition.unknown_reason or partition.rule or _NONE),
        "LAG": Text(words.number(lag)),
        "READABLE": Text(f"{readable:,}" if less else ""),
        "LOST": Text(f"{partition.lost:,}" if partition.lost else ""),
        "TIME LAG": Text(words.time_lag(partition.time_lag_s, partition.time_lag_bound)),
        "COMMITTED": Text(_NONE if committed is None else f"{committed:,}"),
        "OWNER": plain(client(partition.client_id, partition.owner) or _NONE),
    }


def _status(status: str) -> Text:
    return Text(status, style=words.COLOURS.get(status, "dim"))


def _group_status(group: GroupView) -> Text:
    if group.stale:
        return Text(f"{group.status} (stale)", style="dim")
    return plain(group.note, style="dim") if group.note else _status(group.status)


def _total(group: GroupView) -> str:
    if group.total_lag is None or (group.total_lag == 0 and group.unknown_partitions):
        return "unknown"
    if group.unknown_partitions:
        return f"{group.total_lag:,} + {group.unknown_partitions} unknown"
    return f"{group.total_lag:,}"
