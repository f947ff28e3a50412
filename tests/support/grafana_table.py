"""The rows that Grafana shows in a table panel, from the answers of a real Prometheus."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.dashboards import for_all
from tests.support.prometheus import Prometheus

Row = Mapping[str, str]
"""Column → text; a column without a value is absent."""


def table_rows(prometheus: Prometheus, panel: Mapping[str, Any], *, at_s: float) -> list[Row]:
    """What the panel shows of instant `at_s` (Unix time), with all choices open.

    Raises:
        ValueError: a transformation of the panel is unknown here.
    """
    rows: list[Row] = []
    for target in panel["targets"]:
        rows = merge(rows, _frame(prometheus, target, at_s))
    merged, organized = panel["transformations"]
    if (merged["id"], organized["id"]) != ("merge", "organize"):
        raise ValueError(f"{panel['title']}: expected merge, then organize")
    return [_organize(row, organized["options"]) for row in rows]


def merge(rows: Sequence[Row], frame: Sequence[Row]) -> list[Row]:
    """Join each row of the frame to all rows that contradict it in no column; else append it.

    Source: Grafana, packages/grafana-data/src/transformations/transformers/merge.ts
    """
    joined = list(rows)
    for new in frame:
        fits = [all(old.get(name, text) == text for name, text in new.items()) for old in joined]
        joined = [{**old, **new} if fit else old for old, fit in zip(joined, fits, strict=True)]
        if not any(fits):
            joined.append(new)
    return joined


def _frame(prometheus: Prometheus, target: Mapping[str, Any], at_s: float) -> list[Row]:
    """One row a series: its labels, the metric's name included, and its value.

    Source: Grafana, packages/grafana-prometheus/src/result_transformer.ts, transformDFToTable
    """
    assert (target["instant"], target["format"]) == (True, "table"), target
    series = prometheus.query(for_all(target["expr"]), at_s=at_s)
    value = f"Value #{target['refId']}"
    return [{**one["metric"], value: one["value"][1]} for one in series]


def _organize(row: Row, options: Mapping[str, Mapping[str, Any]]) -> Row:
    """Leave columns out and rename the others."""
    return {
        options["renameByName"].get(column, column): text
        for column, text in row.items()
        if not options["excludeByName"].get(column)
    }


@dataclass(frozen=True, kw_only=True)
class Column:
    """Where the cells of a column come from, independent of the dashboard."""

    expression: str
    label: str = ""
    """The cell is the text of this label; empty: the value."""
    default: str = ""
    """Cell of a row without a series; empty: the cell is unknown."""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What a table must show."""

    rows: str
    """Expression with one series for each row."""
    by: tuple[str, ...]
    """Labels that tell rows apart."""
    shown: Mapping[str, str]
    """Those of them that are shown: label → heading."""
    columns: Mapping[str, Column]
    """Heading → the other columns."""

    def expected(self, prometheus: Prometheus, *, at_s: float) -> list[Row]:
        """The rows of instant `at_s` (Unix time), in no order."""
        cells = {
            heading: self._cells(prometheus, column, at_s)
            for heading, column in self.columns.items()
        }
        rows: list[Row] = []
        for series in prometheus.query(self.rows, at_s=at_s):
            row = {heading: series["metric"][label] for label, heading in self.shown.items()}
            for heading, column in self.columns.items():
                row[heading] = cells[heading].get(self._key(series["metric"]), column.default)
            rows.append({heading: text for heading, text in row.items() if text})
        return rows

    def _cells(
        self, prometheus: Prometheus, column: Column, at_s: float
    ) -> Mapping[tuple[str, ...], str]:
        found = prometheus.query(column.expression, at_s=at_s)
        return {
            self._key(one["metric"]): one["metric"][column.label]
            if column.label
            else one["value"][1]
            for one in found
        }

    def _key(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(labels[label] for label in self.by)


_PARTITION = ("cluster", "group", "topic", "partition")
_NOT_OK = 'lagwatch_group_status{status!="OK"} == 1'
_OWNER = "lagwatch_partition_owner_info"

TABLES: Mapping[str, Truth] = {
    "Groups that are not OK": Truth(
        rows=_NOT_OK,
        by=("cluster", "group"),
        shown={"cluster": "Cluster", "group": "Group", "status": "Status"},
        columns={
            "Lag": Column(expression="lagwatch_group_lag_messages"),
            "Time lag": Column(expression="lagwatch_group_max_lag_seconds"),
            "Members": Column(expression="lagwatch_group_members"),
        },
    ),
    "Partitions": Truth(
        rows="lagwatch_committed_offset",
        by=_PARTITION,
        shown={"topic": "Topic", "partition": "Partition"},
        columns={
            "Status": Column(expression="lagwatch_partition_status", label="status", default="OK"),
            "Lag": Column(expression="lagwatch_lag_messages"),
            "Time lag": Column(expression="lagwatch_lag_seconds"),
            "Last commit": Column(expression="lagwatch_commit_age_seconds"),
            "Committed": Column(expression="lagwatch_committed_offset"),
            "Host": Column(expression=_OWNER, label="member_host"),
            "Client": Column(expression=_OWNER, label="client_id"),
        },
    ),
    "Groups": Truth(
        rows="lagwatch_group_topic_committed_offset",
        by=("cluster", "group", "topic"),
        shown={"group": "Group"},
        columns={
            "Lag": Column(expression="lagwatch_group_topic_lag_messages"),
            "Time lag": Column(expression="max by (cluster, group, topic) (lagwatch_lag_seconds)"),
            "Partitions not OK": Column(
                expression="count by (cluster, group, topic) (lagwatch_partition_status)",
                default="0",
            ),
        },
    ),
}
"""Title of a table panel → what it must show."""
