"""What the expressions of panels give, as promtool evaluates them."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.dashboards import boards, chosen, panels
from tests.support.prometheus import program

CHOICES = {"cluster": "prod", "group": "g", "topic": "t", "find": ".*"}
READY = ('lagwatch_cluster_ready{cluster="prod"}', "1x40 0x20")
WRITTEN = ('lagwatch_topic_log_end_offset{cluster="prod",topic="t"}', "0+1500x60")
READ = ('lagwatch_group_topic_committed_offset{cluster="prod",group="g",topic="t"}', "0+750x60")
LAG = ('lagwatch_group_topic_lag_messages{cluster="prod",group="g",topic="t"}', "0+750x60")
SERIES = (READY, WRITTEN, READ, LAG)
LOST = 'lagwatch_lost_messages_total{cluster="prod",group="g",topic="t"}'

Wanted = Mapping[str, list[float]]
"""Time of evaluation (`90s`) → the values."""


def expressions_of(board: str, title: str, kind: str) -> list[str]:
    """The queries of a panel."""
    return [
        chosen(target["expr"].replace("$__range", "10m"), CHOICES)
        for panel in panels(boards()[f"lagwatch-{board}"])
        if (panel["title"], panel["type"]) == (title, kind)
        for target in panel["targets"]
    ]


def check(folder: Path, series: tuple[tuple[str, str], ...], wanted: Mapping[str, Wanted]) -> None:
    """Has promtool compare; `wanted` maps expressions, the samples come every 15 seconds.

    Values are compared to a thousandth; labels do not count. What is shown as unknown (not a
    number) counts as absent; no value here is below 0.
    """
    tests = [
        {
            "expr": f"sum(round(({expression}) >= 0, 0.001))",
            "eval_time": at,
            "exp_samples": [{"labels": "{}", "value": value} for value in values],
        }
        for expression, by_time in wanted.items()
        for at, values in by_time.items()
    ]
    file = folder / "panels.test.yaml"
    inputs = [{"series": name, "values": values} for name, values in series]
    case = {"interval": "15s", "input_series": inputs, "promql_expr_test": tests}
    # JSON is YAML, too
    file.write_text(json.dumps({"evaluation_interval": "15s", "tests": [case]}))
    done = subprocess.run(
        [program("promtool"), "test", "rules", str(file)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("board", "title", "kind", "values"),
    [
        ("topic", "Written", "stat", [100]),
        ("topic", "Written", "timeseries", [100]),
        ("topic", "Read", "timeseries", [50]),
        ("group", "Written and read", "timeseries", [100, 50]),
    ],
)
def test_a_rate_is_right_from_the_second_minute_on_and_absent_while_it_is_unknown(
    board, title, kind, values, tmp_path
) -> None:
    expressions = expressions_of(board, title, kind)

    check(
        tmp_path,
        SERIES,
        {
            expression: {"15s": [], "75s": [value], "3m": [value], "9m": [value], "11m": []}
            for expression, value in zip(expressions, values, strict=True)
        },
    )


@pytest.mark.parametrize("board", ["fleet", "group"])
@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        # `increase` would say 147
        ("_x2 700x20 845x20", 145),
        ("7x40", 0),
        # the counter began again
        ("_x2 0x20 50x10 0x4 20x10", 70),
    ],
)
def test_lost_messages_are_whole_numbers(board, values, wanted, tmp_path) -> None:
    (expression,) = expressions_of(board, "Lost in the time shown", "stat")

    check(tmp_path, ((LOST, values),), {expression: {"10m": [wanted]}})


@pytest.mark.parametrize("board", ["fleet", "itself"])
def test_clusters_that_are_not_ready_count_one_by_one_though_their_label_is_replaced(
    board, tmp_path
) -> None:
    (expression,) = expressions_of(board, "Clusters not ready", "stat")
    ready = 'lagwatch_cluster_ready{cluster="prod",exported_cluster='

    check(tmp_path, ((ready + '"a"}', "1x4"), (ready + '"b"}', "0x4")), {expression: {"1m": [1]}})
