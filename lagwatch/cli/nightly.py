"""`lagwatch nightly`: roll-ups, then the report, in one Spark."""

from typing import Annotated, Final

import typer

from lagwatch.cli.jobs import EXIT_CODES, Master, Store, leaving, prepared
from lagwatch.cli.options import ConfigFile, configured
from lagwatch.cli.report import report_day
from lagwatch.cli.reporting import reported
from lagwatch.cli.rollup import roll_up

EPILOG: Final = f"""
Does what `lagwatch rollup` and then `lagwatch report` do, and starts Spark once. When the roll-ups
fail there is no report. Each of the two has its own lock, line `job_ended`, event and metrics.
{EXIT_CODES}
**Examples**

`lagwatch nightly -c lagwatch.toml`

`lagwatch nightly --store ./history --no-send`
"""


@reported()
def nightly(
    *,
    send: Annotated[
        bool, typer.Option("--send/--no-send", help="Send the text to jobs.report.channels.")
    ] = True,
    config: ConfigFile = None,
    store: Store = None,
    master: Master = None,
) -> None:
    """Roll up what is due, then report on the day before, in one Spark."""
    from zoneinfo import ZoneInfo

    from lagwatch.clock import SystemClock
    from lagwatch.config.jobs import ReportSettings
    from lagwatch.jobs.report.day import yesterday
    from lagwatch.jobs.rollup.job import RollupRequest
    from lagwatch.notify.broadcast import check

    settings = configured(config).settings if config is not None else None
    wanted = settings.jobs.report if settings is not None else ReportSettings()
    names = wanted.channels if send else ()
    if names and settings is not None:
        check(names, settings.alerts, key="jobs.report.channels")
    # the day before the command was started, however long the roll-ups take
    day = yesterday(SystemClock().now_ms(), ZoneInfo(wanted.time_zone))
    with leaving() as runs, prepared(config=config, store=store, master=master) as place:
        with place.begun("rollup") as begun:
            roll_up(begun, RollupRequest())
        runs.append(begun.run)
        with place.begun("report") as begun:
            report_day(begun, day, wanted, names=names)
        runs.append(begun.run)
