"""What the tables of the dashboards must show, from a real Prometheus."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.support.prometheus import Prometheus

Row = Mapping[str, str]
"""Column → text; a column without a value is absent."""


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

    def expected(
        self, prometheus: Prometheus, *, at_s: float, only: Mapping[str, str]
    ) -> list[Row]:
        """The rows of instant `at_s` (Unix time) with these values of labels, in no order."""
        cells = {
            heading: self._cells(prometheus, column, at_s)
            for heading, column in self.columns.items()
        }
        rows: list[Row] = []
        for series in prometheus.query(self.rows, at_s=at_s):
            if not only.items() <= series["metric"].items():
                continue
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
            self._key(result["metric"]): result["metric"][column.label]
            if column.label
            else result["value"][1]
            for result in found
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
            "Rule": Column(expression="lagwatch_group_rule_info", label="rule", default="unknown"),
            "Cause": Column(
                expression="lagwatch_group_cause_info", label="cause", default="unknown"
            ),
            "Since": Column(expression="1000 * lagwatch_group_trouble_start_timestamp_seconds"),
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
