"""The pieces all dashboards are made of: data sources, variables and panels in one style."""

from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Final

from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    elasticsearch,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import heatmap as heatmaps
from grafana_foundation_sdk.models import prometheus as formats

PROMETHEUS: Final = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
HISTORY: Final = models.DataSourceRef(type_val="elasticsearch", uid="${history}")

FULL, HALF, THIRD, QUARTER, SIXTH = 24, 12, 8, 6, 4
"""Widths of panels; a row has 24 columns."""

STATUS_COLORS: Final[Mapping[str, str]] = {
    "OK": "green",
    "WARN": "yellow",
    "ERR": "red",
    "STOP": "dark-red",
    "STALL": "red",
    "REWIND": "purple",
    "UNKNOWN": "text",
}

STATE_COLORS: Final[Mapping[str, str]] = {
    "Stable": "green",
    "Empty": "blue",
    "PreparingRebalance": "yellow",
    "CompletingRebalance": "yellow",
    "Assigning": "yellow",
    "Reconciling": "yellow",
    "NotReady": "orange",
    "Dead": "dark-red",
}

COLORED_STATUS: Final[Mapping[str, object]] = {
    "mappings": [
        models.ValueMap(
            options={
                status: models.ValueMappingResult(color=color, index=index)
                for index, (status, color) in enumerate(STATUS_COLORS.items())
            }
        )
    ],
    "custom.cellOptions": {"type": "color-text"},
}
"""What a table column with the names of statuses needs to show them in their colors."""

STATUS_CODES: Final = {"OK": 1, "WARN": 2, "ERR": 3, "UNKNOWN": 4}
"""Numbers that stand for statuses inside a panel only."""

_UNKNOWN: Final = models.SpecialValueMap(
    options=models.DashboardSpecialValueMapOptions(
        match=models.SpecialValueMatch.NA_N,
        result=models.ValueMappingResult(text="unknown", index=0),
    )
)
"""How a table shows the values that `or_unknown` puts in."""
_NO_NUMBER: Final = models.SpecialValueMap(
    options=models.DashboardSpecialValueMapOptions(
        match=models.SpecialValueMatch.NA_N,
        result=models.ValueMappingResult(text="unknown", color="text", index=0),
    )
)
"""The same of a single number, whose color would else be that of 0."""

AGO: Final[Mapping[str, object]] = {"unit": "dateTimeFromNow"}
"""What a column of instants in milliseconds needs to say how long ago they were."""

TO_GROUP: Final = (
    "/d/lagwatch-group?${datasource:queryparam}"
    "&var-cluster=${__field.labels.cluster}&var-group=${__field.labels.group}&${__url_time_range}"
)
"""The group that a curve is of; its labels must be cluster and group."""

OLD_DATA_S: Final = 60.0
"""Age from which data are shown in red."""

Override = tuple[str, Mapping[str, object]]
"""Name of a field, and what is different about it."""


def board(uid: str, title: str, description: str) -> dashboard.Dashboard:
    """An empty dashboard that finds its data sources and its siblings."""
    siblings = (
        dashboard.DashboardLink("lagwatch")
        .type(models.DashboardLinkType.DASHBOARDS)
        .tags(["lagwatch"])
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
    )
    return (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["lagwatch", "kafka"])
        .link(siblings)
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .timezone("browser")
        .editable()
    )


def live(uid: str, title: str, description: str) -> dashboard.Dashboard:
    """A dashboard on Prometheus."""
    return (
        board(uid, title, description)
        .refresh("30s")
        .time("now-3h", "now")
        .with_variable(source("datasource", "prometheus", "Prometheus"))
    )


def source(name: str, kind: str, label: str) -> dashboard.DatasourceVariable:
    """A choice among the data sources of a kind."""
    return dashboard.DatasourceVariable(name).label(label).type(kind)


def choice(name: str, query: str, *, many: bool = True) -> dashboard.QueryVariable:
    """A choice among the values of a label: `label_values(metric, label)`."""
    variable = (
        dashboard.QueryVariable(name)
        .label(name.capitalize())
        .datasource(PROMETHEUS)
        .query(query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
    )
    return variable.multi(True).include_all(True).all_value(".*") if many else variable


def find() -> dashboard.TextBoxVariable:
    """A regular expression that names of groups match: a list of thousands helps nobody."""
    return (
        dashboard.TextBoxVariable("find")
        .label("Groups that match")
        .description("A regular expression for the whole name, such as billing-.*")
        .default_value(".*")
    )


class _Event(models.AnnotationQuery):
    """An annotation at the instants that are the values of a query, in milliseconds."""

    def to_json(self) -> dict[str, object]:
        return super().to_json() | {
            "useValueForTime": True,
            "titleFormat": "{{group}}",
            "textFormat": "{{version}}",
        }


class _EventBuilder(dashboard.AnnotationQuery):
    def build(self) -> models.AnnotationQuery:
        event = _Event()
        event.__dict__.update(super().build().__dict__)
        return event


def events(name: str, expr: str, color: str) -> dashboard.AnnotationQuery:
    """Marks at the instants that `expr` gives, in milliseconds."""
    query = _EventBuilder().name(name).datasource(PROMETHEUS).icon_color(color)
    return query.enable(True).expr(expr)


def worst(metric: str, selector: str) -> str:
    """The ten groups in which the metric was greatest in the time shown, over all of it."""
    greatest = f"max by (cluster, group) (max_over_time({metric}{selector}[$__range] @ end()))"
    here = f"max by (cluster, group) ({metric}{selector})"
    return f"{here} and on (cluster, group) topk(10, {greatest})"


def over_time(expr: str, legend: str = "") -> prometheus.Dataquery:
    """A query that gives curves."""
    return prometheus.Dataquery().expr(expr).legend_format(legend).range()


def rate(offset: str, by: str) -> str:
    """Messages a second, over five minutes or the time for which the offset is known, if shorter.

    `by` names the labels to keep, the cluster among them. Nothing is shown for about the first
    minute, nor while the offset is not known. Divisor and dividend are of the same two samples.
    """
    moved = f"delta({offset}[5m:30s]) / (delta(timestamp({offset})[5m:30s]) > 45)"
    ready = "max by (cluster) (lagwatch_cluster_ready) == 1"
    return (
        f"clamp_min(max by ({by}) ({moved}), 0) and on ({by}) {offset} and on (cluster) ({ready})"
    )


def lost(selector: str, by: str) -> str:
    """Messages lost within the time shown, as a whole number.

    `increase` extrapolates, so it is asked only where the counter began again.
    """
    counter = f"lagwatch_lost_messages_total{selector}[$__range]"
    counted = f"max_over_time({counter}) - min_over_time({counter}) unless resets({counter}) > 0"
    return f"sum(max by ({by}) ({counted} or round(increase({counter}))))"


def latest(expr: str) -> prometheus.Dataquery:
    """A query that gives the present value of each series; a series that ended has none."""
    return prometheus.Dataquery().expr(expr).instant()


def now(expr: str, ref: str = "A") -> prometheus.Dataquery:
    """A query that gives rows of a table.

    Aggregate it `by` the columns that the table shows: any other label, the metric's name
    included, keeps rows of different queries apart.
    """
    query = prometheus.Dataquery().expr(expr).instant().ref_id(ref)
    return query.format(formats.PromQueryFormat.TABLE)


def curves(
    title: str,
    queries: Sequence[prometheus.Dataquery | elasticsearch.Dataquery],
    *,
    unit: str = "short",
    span: int = HALF,
    about: str,
    data: models.DataSourceRef = PROMETHEUS,
    stacked: bool = False,
    link: str = "",
    colors: Mapping[str, str] | None = None,
) -> timeseries.Panel:
    """Values over time; a gap is unknown and stays a gap.

    `link` is where a curve leads; `colors` maps legends to colors.
    """
    legend = (
        common.VizLegendOptions()
        .display_mode(kinds.LegendDisplayMode.TABLE)
        .placement(kinds.LegendPlacement.BOTTOM)
        .show_legend(True)
        .calcs(["last", "max"])
    )
    panel = (
        timeseries.Panel()
        .title(title)
        .description(about)
        .datasource(data)
        .unit(unit)
        .min(0)
        .span(span)
        .height(8)
        .line_width(1)
        .fill_opacity(10)
        .legend(legend)
    )
    if stacked:
        panel.stacking(common.StackingConfig().mode(kinds.StackingMode.NORMAL)).fill_opacity(60)
    for letter, query in zip(ascii_uppercase, queries, strict=False):
        panel.with_target(query.ref_id(letter))
    if link:
        panel.data_links([dashboard.DashboardLink("Open the group").url(link)])
    for name, color in (colors or {}).items():
        fixed = {"mode": "fixed", "fixedColor": color}
        panel.override_by_name(name, _properties({"color": fixed}))
    return panel


def number(
    title: str,
    expr: str,
    *,
    unit: str = "short",
    span: int = SIXTH,
    bad_from: float | None = None,
    bad: str = "red",
    about: str,
    missing: str = "unknown",
    legend: str = "",
) -> stat.Panel:
    """One number; in the color `bad` from `bad_from` on. `missing` is what it says without a value.

    With a `legend` it shows that beside the number. Below `bad_from` it is not green: a number is
    also low while too little is known.
    """
    steps = [models.Threshold(value=None, color="text")]
    if bad_from is not None:
        steps.append(models.Threshold(value=bad_from, color=bad))
    thresholds = dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)
    if missing == "unknown" and not legend:
        expr = f"({expr}) or vector(NaN)"
    panel = (
        stat.Panel()
        .title(title)
        .description(about)
        .datasource(PROMETHEUS)
        .unit(unit)
        .mappings([_NO_NUMBER])
        .thresholds(thresholds)
        .graph_mode(kinds.BigValueGraphMode.NONE)
        .no_value(missing)
        .span(span)
        .height(4)
        .with_target(latest(expr).legend_format(legend))
    )
    return panel.text_mode(kinds.BigValueTextMode.VALUE_AND_NAME) if legend else panel


def clusters_not_ready(selector: str) -> str:
    """How many clusters have not been read completely, or not lately.

    Clusters whose names Prometheus has moved to `exported_cluster` count one by one.
    """
    return f"sum(1 - max by (cluster, exported_cluster) (lagwatch_cluster_ready{selector}))"


def oldest_data(selector: str) -> str:
    """Age in seconds of the data of the cluster that was read least lately."""
    return f"max(lagwatch_data_age_seconds{selector})"


def status(title: str, selector: str, *, about: str) -> stat.Panel:
    """The status of one group, in its color."""
    metric = f"lagwatch_group_status{{{selector}"
    cases = " or ".join(
        f'{code} * (max by (cluster, group) ({metric},status="{name}"}}) == 1)'
        for name, code in STATUS_CODES.items()
    )
    words = {
        str(code): models.ValueMappingResult(text=name, color=STATUS_COLORS[name], index=code)
        for name, code in STATUS_CODES.items()
    }
    return number(title, f"max({cases})", span=QUARTER, about=about).mappings(
        [_NO_NUMBER, models.ValueMap(options=words)]
    )


def word(title: str, query: prometheus.Dataquery, *, about: str, missing: str) -> stat.Panel:
    """A label of the one series there is: its legend."""
    return (
        stat.Panel()
        .title(title)
        .description(about)
        .datasource(PROMETHEUS)
        .text_mode(kinds.BigValueTextMode.NAME)
        .graph_mode(kinds.BigValueGraphMode.NONE)
        .color_mode(kinds.BigValueColorMode.NONE)
        .no_value(missing)
        .span(QUARTER)
        .height(4)
        .with_target(query)
    )


def or_unknown(expr: str, rows: str) -> str:
    """The value, and one that is shown as unknown for each of the rows that has none.

    Both have the same labels. A table needs it in more than one column: Grafana names the values
    otherwise where a single query answers, and leaves out columns without any.
    """
    return f"{expr} or NaN * ({rows})"


def listing(
    title: str,
    queries: Sequence[prometheus.Dataquery],
    *,
    names: Mapping[str, str],
    hidden: Sequence[str] = (),
    sort: str = "",
    overrides: Sequence[Override] = (),
    span: int = FULL,
    height: int = 10,
    about: str,
) -> table.Panel:
    """A table: the queries joined by their labels.

    `names` maps their columns to headings, in the order in which they are shown.

    A cell without a value says unknown.
    """
    panel = (
        table.Panel()
        .title(title)
        .description(about)
        .datasource(PROMETHEUS)
        .filterable(True)
        .mappings([_UNKNOWN])
        .span(span)
        .height(height)
    )
    for query in queries:
        panel.with_target(query)
    excluded = dict.fromkeys(("Time", *hidden), True)
    panel.with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
    panel.with_transformation(
        models.DataTransformerConfig(
            id_val="organize",
            options={
                "excludeByName": excluded,
                "indexByName": {name: place for place, name in enumerate(names)},
                "renameByName": dict(names),
            },
        )
    )
    # Grafana shows the default of noValue in place of an empty table: that is not unknown
    panel.override_by_regexp(".*", _properties({"noValue": "unknown"}))
    for name, properties in overrides:
        panel.override_by_name(name, _properties(properties))
    if sort:
        panel.sort_by([common.TableSortByFieldState().display_name(sort).desc(True)])
    return panel


def _properties(properties: Mapping[str, object]) -> list[models.DynamicConfigValue]:
    return [models.DynamicConfigValue(id_val=key, value=value) for key, value in properties.items()]


def timeline(
    title: str,
    query: prometheus.Dataquery,
    *,
    colors: Mapping[str, str],
    span: int = FULL,
    about: str,
) -> statetimeline.Panel:
    """Which state held when; the query gives one series per state, its value 1 while it holds.

    `colors` maps the legend of each state to its color.
    """
    panel = (
        statetimeline.Panel()
        .title(title)
        .description(about)
        .datasource(PROMETHEUS)
        .merge_values(True)
        .show_value(kinds.VisibilityMode.NEVER)
        .span(span)
        .height(6)
        .with_target(query)
    )
    for state, color in colors.items():
        panel.override_by_name(state, _properties({"mappings": [_held_in(color)]}))
    return panel


def _held_in(color: str) -> models.ValueMap:
    """1 in a color, 0 invisible."""
    return models.ValueMap(
        options={
            "1": models.ValueMappingResult(text="yes", color=color, index=0),
            "0": models.ValueMappingResult(text="no", color="transparent", index=1),
        }
    )


def heat(title: str, query: prometheus.Dataquery, *, span: int = FULL, about: str) -> heatmap.Panel:
    """One row of cells per series: the darker, the greater."""
    color = (
        heatmap.HeatmapColorOptions()
        .mode(heatmaps.HeatmapColorMode.SCHEME)
        .scheme("Oranges")
        .steps(64)
        .scale(heatmaps.HeatmapColorScale.EXPONENTIAL)
        .exponent(0.5)
    )
    return (
        heatmap.Panel()
        .title(title)
        .description(about)
        .datasource(PROMETHEUS)
        .calculate(False)
        .color(color)
        .span(span)
        .height(10)
        .with_target(query)
    )
