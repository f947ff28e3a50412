"""`lagwatch report`: a day of all groups as a page, as JSON and as text."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lagwatch.cli.jobs import EXIT_CODES, Clusters, Job, Master, Store, job, require_known
from lagwatch.cli.options import ConfigFile, configured, instant, instant_ms
from lagwatch.cli.reporting import reported

if TYPE_CHECKING:  # pyspark and pydantic take a while to import
    from lagwatch.config.jobs import ReportSettings
    from lagwatch.config.settings import Settings
    from lagwatch.jobs.report.build import ReportResult
    from lagwatch.jobs.report.day import Day

EPILOG = f"""
Run `lagwatch rollup` before: the report is made from roll-ups of five minutes, samples and events.
{EXIT_CODES}
**Examples**

`lagwatch report -c lagwatch.toml`

`lagwatch report --day 2026-11-20 --folder /tmp/report --no-send -c lagwatch.toml`

`lagwatch report --from 2026-11-01 --to 2026-11-08 --store ./history --no-send`
"""


@reported()
def report(
    *,
    day: Annotated[
        str | None,
        typer.Option(metavar="DAY", help="As 2026-11-20; by default the last that is over."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Every day from here on …")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="… that begins before this.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Where to; instead of jobs.report.folder.")
    ] = None,
    send: Annotated[
        bool, typer.Option("--send/--no-send", help="Send the text to jobs.report.channels.")
    ] = True,
    config: ConfigFile = None,
    store: Store = None,
    master: Master = None,
    cluster: Clusters = None,
) -> None:
    """Report on a day: groups, objectives, incidents, trends, partitions needed."""
    from lagwatch.clock import SystemClock
    from lagwatch.config.jobs import ReportSettings
    from lagwatch.notify.broadcast import check

    settings = configured(config).settings if config is not None else None
    wanted = settings.jobs.report if settings is not None else ReportSettings()
    days = _days(day, since, until, wanted.time_zone, SystemClock().now_ms())
    names = wanted.channels if send else ()
    if names and settings is not None:
        check(names, settings.alerts, key="jobs.report.channels")
    with job("report", config=config, store=store, master=master) as begun:
        for chosen in days:
            report_day(begun, chosen, wanted, folder=folder, names=names, clusters=cluster or ())


def report_day(
    begun: Job,
    day: "Day",
    settings: "ReportSettings",
    *,
    folder: Path | None = None,
    names: tuple[str, ...] = (),
    clusters: list[str] | tuple[str, ...] = (),
) -> None:
    """Make the report of a day, write it, and send its text to these channels.

    Raises:
        HistoryError, JobError: the store or Spark refused.
    """
    from lagwatch.jobs.report.deliver import prepare

    place = folder or settings.folder
    prepare(place)
    result = _made(begun, day, settings, clusters)
    _written(begun, result, place)
    if names and begun.settings is not None:
        _sent(begun, result, names, begun.settings)


def _made(
    begun: Job, day: "Day", settings: "ReportSettings", clusters: list[str] | tuple[str, ...]
) -> "ReportResult":
    from lagwatch.jobs.report.build import ReportRequest, run_report

    require_known(clusters, begun)
    result = run_report(
        begun.spark,
        begun.ref,
        ReportRequest(day=day, settings=settings, clusters=tuple(clusters)),
        now_ms=begun.now_ms,
        log_step=lambda event, values: begun.run.log_step(event, **values),
    )
    for name, number in result.counts().items():
        begun.run.count(name, number)
    for file, reason in result.set_aside.items():
        begun.run.put_aside(f"{file}: {reason}")
    begun.run.clusters.update(seen.cluster for seen in result.report.clusters)
    return result


def _written(begun: Job, result: "ReportResult", folder: Path) -> None:
    from lagwatch.jobs.report.deliver import write
    from lagwatch.jobs.report.text import text

    files = write(result.report, folder)
    begun.run.log_step("report_written", files=[str(path) for path in files])
    typer.echo(text(result.report))
    typer.echo(f"\n{files[0]}")


def _sent(begun: Job, result: "ReportResult", names: tuple[str, ...], settings: "Settings") -> None:
    from lagwatch.clock import SystemClock
    from lagwatch.jobs.report.deliver import send

    for sent in send(result.report, names, settings.alerts, SystemClock()):
        if sent.delivered:
            begun.run.log_step("report_sent", channel=sent.channel, answer=sent.answer)
        else:
            begun.run.put_aside(f"the text for channel {sent.channel}: {sent.answer}")


_FIRST_YEAR: Final = 1971
"""Instants are counted from 1970, and a report compares its day with earlier ones."""


def _days(
    day: str | None, since: str | None, until: str | None, zone_name: str, now_ms: int
) -> "list[Day]":
    """The days that are wanted; they must be over."""
    from zoneinfo import ZoneInfo

    from lagwatch.jobs.report.day import Day, yesterday

    zone = ZoneInfo(zone_name)
    last = yesterday(now_ms, zone)
    if day is not None and (since or until):
        raise typer.BadParameter("say --day, or --from and --to", param_hint="--day")
    if day is None and since is None:
        if until is not None:
            raise typer.BadParameter("needs --from as well", param_hint="--to")
        return [last]
    flag = "--from" if day is None else "--day"
    first = Day(date=instant(day or since or "", flag, zone).date(), zone=zone)
    if first.date > last.date:
        raise typer.BadParameter(f"{first.date} is not over in {zone.key}", param_hint=flag)
    if first.date.year < _FIRST_YEAR:
        raise typer.BadParameter(
            f"{first.date} is before {_FIRST_YEAR}: nothing is recorded of it", param_hint=flag
        )
    if day is not None:
        return [first]
    end_ms = instant_ms(until, "--to", zone) if until else last.to_ms
    found = []
    while first.from_ms < end_ms and first.date <= last.date:
        found.append(first)
        first = first.before(-1)
    if not found:
        raise typer.BadParameter("is before --from", param_hint="--to")
    return found
