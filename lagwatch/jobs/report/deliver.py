"""Delivers reports: as files in a folder, and as short text to alert channels."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile

import orjson

from lagwatch.clock import Clock
from lagwatch.config.alerts import AlertsSettings
from lagwatch.errors import JobError
from lagwatch.jobs.report.model import Report
from lagwatch.jobs.report.page import html
from lagwatch.jobs.report.text import subject, text
from lagwatch.notify.broadcast import Delivery, deliver
from lagwatch.notify.channels.registry import open_channel
from lagwatch.notify.notice import ReportMessage


def documents(report: Report) -> Mapping[str, bytes]:
    """The report by the ending of the file's name: html, json, txt."""
    return {
        "html": html(report).encode(),
        "json": orjson.dumps(report.as_json(), option=orjson.OPT_INDENT_2),
        "txt": (text(report) + "\n").encode(),
    }


def prepare(folder: Path) -> None:
    """Make the folder of reports: who cannot write it shall know before the work.

    Raises:
        JobError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _not_writable(folder, error) from error


def write(report: Report, folder: Path) -> list[Path]:
    """Write `2026-11-20.html`, `.json` and `.txt`, each wholly or not at all.

    Raises:
        JobError: the folder cannot be written.
    """
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for ending, content in documents(report).items():
            written.append(_put(folder / f"{report.day}.{ending}", content))
    except OSError as error:
        raise _not_writable(folder, error) from error
    return written


def _not_writable(folder: Path, error: OSError) -> JobError:
    return JobError(
        kind="input",
        message=f"jobs.report.folder: {folder} cannot be written: {error}. Choose another.",
        retryable=False,
    )


def _put(path: Path, content: bytes) -> Path:
    """Write a file beside its place, and move it there.

    A run that was killed in between leaves the name that the next run writes to.
    """
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(content)
    beside.replace(path)
    return path


def report_message(report: Report) -> ReportMessage:
    """The report as it is sent; the same day's report has the same id."""
    return ReportMessage(
        id=f"report-{report.time_zone.replace('/', '-')}-{report.day}",
        at_ms=report.made_ms,
        subject=subject(report),
        text=text(report),
        document=_summary(report),
        page=html(report).encode(),
        page_name=f"lagwatch-{report.day}.html",
    )


def send(
    report: Report, names: Sequence[str], alerts: AlertsSettings, clock: Clock
) -> list[Delivery]:
    """Send the text to these channels; return the outcome per channel.

    Raises:
        ConfigError: a channel's certificates or URLs cannot be used.
    """
    wanted = {name: channel for name, channel in alerts.channels() if name in names}
    if not wanted:
        return []
    channels = {name: open_channel(name, settings, clock) for name, settings in wanted.items()}
    timeout_s = max(settings.timeout_s for settings in wanted.values())
    return asyncio.run(deliver(channels, report_message(report), timeout_s=timeout_s, clock=clock))


def _summary(report: Report) -> dict[str, object]:
    """The numbers on top, for receivers that count (None: unknown); the file has all."""
    return {
        "day": report.day,
        "time_zone": report.time_zone,
        "from_ms": report.from_ms,
        "to_ms": report.to_ms,
        "groups": len(report.groups),
        "incidents": len(report.incidents),
        "open_incidents": sum(incident.to_ms is None for incident in report.incidents),
        "objective_missed": report.missed,
        "retention_risks": report.at_risk,
        "to_scale": report.to_scale,
        "changes": None if report.trend.changes is None else len(report.trend.changes),
        "groups_new": len(report.groups_new) if report.turnover_known else None,
        "groups_gone": len(report.groups_gone),
    }
