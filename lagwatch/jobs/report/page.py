"""The report as one HTML file: no scripts, nothing from elsewhere, pictures as SVG in the text."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from importlib import resources
from typing import Any, Final
from zoneinfo import ZoneInfo

from jinja2 import Environment, FunctionLoader, StrictUndefined

from lagwatch.core.words import counted, spoken
from lagwatch.jobs.report import words
from lagwatch.jobs.report.model import HeatRow, Report, ReportedIncident, TopicAdvice
from lagwatch.jobs.report.parts import names

SHOWN: Final = 15
"""At most this many rows per table; the page counts the rest, and the JSON has all."""
_CLASSES: Final = (0.25, 1.0, 5.0, 30.0)
"""Bounds of the heat map's colours, as multiples of the objective."""
_LATE: Final = {"h2", "h3", "h4"}
_METRICS: Final = {
    "time_lag_s": "time lag",
    "lag": "lag",
    "produced_per_s": "produced",
}
_BAD: Final = {"WARN", "ERR"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One hour of one group."""

    colour: str
    """h0 … h4; hu: the time lag is unknown; hn: not recorded."""
    bad: str
    """WARN, ERR or ""."""
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A row of the heat map."""

    cluster: str
    group: str
    cells: Sequence[Cell]
    said: str
    """The row in words, for screen readers."""

    @property
    def troubled(self) -> bool:
        """True if it was late or not OK at any time."""
        return any(cell.bad or cell.colour in _LATE for cell in self.cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Demand beside what can be done, in per cent of the greatest."""

    peak: float
    now: float | None
    """Capacity of the present consumers."""
    limit: float
    """Capacity with one consumer per partition."""


def html(report: Report) -> str:
    """The page."""
    environment = _environment(report)
    objective_s = report.objectives.objective_s
    bands = [band for row in report.heat.rows if (band := _band(report, row)).troubled]
    shown = environment.get_template("report.html.j2").render(
        report=report,
        shown=SHOWN,
        bands=bands,
        calm=len(report.groups) - len(bands),
        late=[group for group in report.objectives.groups if group.spent_s],
        legend=_legend(objective_s),
        marks=_marks(report),
        sparks={
            (row.cluster, row.group): spark(row.time_lag_max_s, objective_s)
            for row in report.heat.rows
        },
        scale=[
            (advised, _bars(advised)) for advised in report.advice if advised.needed is not None
        ],
        without_advice=[advised for advised in report.advice if advised.needed is None],
        bad_groups=sorted(
            (row for row in report.groups if row.not_ok_s),
            key=lambda row: -(row.not_ok_s or 0.0),
        ),
        metrics=_METRICS,
        facts=facts(report),
        title=_title(report),
    )
    return "\n".join(line.rstrip() for line in shown.splitlines() if line.strip()) + "\n"


def spark(values: Sequence[float | None], least: float) -> str:
    """A line through the hours in a box of 100 by 20, as the path of an SVG; gaps stay gaps.

    The box is as high as the greatest value, but no lower than `least`: what is small stays low.
    """
    known = [value for value in values if value is not None]
    top = max([least, *known])
    step = 100 / max(1, len(values) - 1)
    path, pen_down = [], False
    for place, value in enumerate(values):
        if value is None:
            pen_down = False
            continue
        path.append(f"{'L' if pen_down else 'M'}{place * step:.1f} {19 - 18 * value / top:.1f}")
        if not pen_down:
            path.append("h0.1")  # an hour alone is a dot
        pen_down = True
    return "".join(path)


def colour(time_lag_s: float | None, objective_s: float) -> str:
    """The class of a cell."""
    if time_lag_s is None:
        return "hu"
    return f"h{sum(time_lag_s > bound * objective_s for bound in _CLASSES)}"


def _environment(report: Report) -> Environment:
    zone = ZoneInfo(report.time_zone)
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(_shipped),
    )
    environment.filters |= {
        "spoken": spoken,
        "duration": words.duration,
        "time_lag": words.time_lag,
        "catch_up": words.catch_up,
        "loss": words.loss,
        "lost": words.lost,
        "number": words.number,
        "rate": words.rate,
        "share": words.share,
        "factor": words.factor,
        "used": words.used,
        "chance": words.chance,
        "clock": lambda at_ms: words.clock(at_ms, zone),
        "moment": lambda at_ms: words.moment(at_ms, zone),
        "at": lambda at_ms: words.at(at_ms, report, zone),
        "place": lambda at_ms: _place(at_ms, report),
        "seen_open": lambda incident: words.last_seen_open(incident, report.to_ms),
        "begin": _begin,
        "value": _value,
        "offset": words.offset,
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
    }
    environment.globals["plural"] = counted
    return environment


def _shipped(name: str) -> str:
    folder = resources.files("lagwatch.jobs.report").joinpath("templates")
    return folder.joinpath(name).read_text(encoding="utf-8")


def _title(report: Report) -> str:
    """`Sunday 25 October 2026`."""
    return f"{date.fromisoformat(report.day):%A %-d %B %Y}"


def _place(at_ms: int | None, report: Report) -> float:
    """Position of an instant in the day, in per cent; clipped to 0 and 100."""
    length = report.to_ms - report.from_ms
    return 100 * min(max((at_ms or 0) - report.from_ms, 0), length) / length


def _begin(incident: ReportedIncident) -> int | None:
    """Where it is drawn from: one that had begun before the history as far as it was recorded."""
    end_ms = incident.to_ms or incident.last_seen_ms
    if incident.from_ms is not None or end_ms is None:
        return incident.from_ms
    return end_ms - round(incident.seconds * 1000)


def _value(value: float | None, metric: str) -> str:
    if metric == "time_lag_s":
        return words.duration(value)
    return words.rate(value) if metric.endswith("_per_s") else words.number(value)


def _band(report: Report, row: HeatRow) -> Band:
    objective_s = report.objectives.objective_s
    cells = []
    for hour, lag, time_lag_s, status in zip(
        report.heat.hours, row.lag_max, row.time_lag_max_s, row.status, strict=True
    ):
        bad = status if status in _BAD else ""
        text = (
            "not recorded"
            if status is None
            else f"time lag up to {words.duration(time_lag_s)}, lag up to {words.number(lag)}"
            + (f", {bad}" if bad else "")
        )
        cells.append(
            Cell(
                colour="hn" if status is None else colour(time_lag_s, objective_s),
                bad=bad or "",
                title=f"{hour.label} {text}",
            )
        )
    return Band(cluster=row.cluster, group=row.group, cells=cells, said=_said(report, row))


def _said(report: Report, row: HeatRow) -> str:
    known = [
        (value, hour.label)
        for value, hour in zip(row.time_lag_max_s, report.heat.hours, strict=True)
        if value is not None
    ]
    bad = sum(status in _BAD for status in row.status)
    worst, label = max(known, key=lambda cell: cell[0], default=(None, ""))
    most = f"time lag up to {words.duration(worst)} at {label}" if known else "time lag unknown"
    return f"{row.group} on {row.cluster}: {most}; in trouble in {counted(bad, 'hour')}"


def _legend(objective_s: float) -> list[tuple[str, str]]:
    bounds = [words.duration(bound * objective_s) for bound in _CLASSES]
    texts = [f"up to {bound}" for bound in bounds]
    texts[1] += " (objective)"
    return [
        *((f"h{number}", text) for number, text in enumerate(texts)),
        ("h4", f"above {bounds[-1]}"),
    ]


def _marks(report: Report) -> list[tuple[float, str]]:
    """Where hours are written along a day: every sixth, in per cent of it."""
    count = len(report.heat.hours)
    return [
        (100 * place / count, hour.label)
        for place, hour in enumerate(report.heat.hours)
        if hour.label in {"00:00", "06:00", "12:00", "18:00"}
    ]


def _bars(advised: TopicAdvice) -> Bars:
    each = (advised.rate_per_s or 0.0) * advised.headroom
    peak, limit = advised.peak_per_s or 0.0, each * advised.partitions
    now = None if advised.consumers is None else each * min(advised.consumers, advised.partitions)
    top = max(peak, limit, now or 0.0) or 1.0
    return Bars(
        peak=100 * peak / top,
        now=None if now is None else 100 * now / top,
        limit=100 * limit / top,
    )


def facts(report: Report) -> list[dict[str, Any]]:
    """The numbers on top: what, how many (None: unknown), and whether that is good."""
    missed, scale, changes = report.missed, report.to_scale, report.trend.changes
    open_then = [incident for incident in report.incidents if incident.to_ms is None]
    cut_off = sum(words.last_seen_open(each, report.to_ms) is not None for each in open_then)
    open_words = [f"{len(open_then) - cut_off} still open"] if len(open_then) > cut_off else []
    open_words += [f"{cut_off} open when last recorded"] if cut_off else []
    lost = words.lost(
        sum(risk.lost for risk in report.retention),
        any(risk.lost_at_most for risk in report.retention),
    )
    return [
        {"what": "Groups", "count": len(report.groups), "more": "", "bad": False},
        {
            "what": "Incidents",
            "count": len(report.incidents),
            "more": ", ".join(open_words),
            "bad": bool(report.incidents),
        },
        {
            "what": "Missed the objective",
            "count": missed,
            "more": "" if missed is None else f"of {len(report.objectives.groups)}",
            "bad": bool(missed),
        },
        {
            "what": "Partitions at risk",
            "count": report.at_risk,
            "more": f"{lost} messages lost" if lost else "",
            "bad": bool(report.retention),
        },
        {
            "what": "To be scaled",
            "count": scale,
            "more": ("group" if scale == 1 else "groups") if scale else "",
            "bad": bool(scale),
        },
        {
            "what": "Changed",
            "count": None if changes is None else len({names(change) for change in changes}),
            "more": "against the week before",
            "bad": False,
        },
    ]
