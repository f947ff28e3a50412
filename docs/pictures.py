"""Makes the pictures of the manual: `python -m docs.pictures`, which `make pictures` runs.

The page and the terminal are shown over the groups of `lagwatch demo`, in a headless Chromium. A
report is of a whole day, which the demo does not last: its picture is of the made-up day of the
tests. The boards are drawn from what a Prometheus has scraped of the demo.
"""

import contextlib
import io
import json
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, Final

from rich.console import Console, RenderableType
from rich.terminal_theme import MONOKAI

from docs.board_pictures import BOARDS, picture
from lagwatch.cli.remote import RemoteSource
from lagwatch.cli.status import look
from lagwatch.cli.status_table import draw_group
from lagwatch.cli.top_view import TopView, read, screen, with_found
from lagwatch.demo.groups import DEMO_GROUPS, Role
from lagwatch.kafka.embedded.ports import free_ports
from tests.support.browser import Browser, browsing
from tests.support.dashboards import RULES, boards, panels
from tests.support.grafana_shows import shown
from tests.support.prometheus import Prometheus, scraping
from tests.support.waiting import eventually

FOLDER: Final = Path(__file__).parent / "pictures"
_CLUSTER: Final = "demo"
_SHOWN: Final = "click-stats"
"""The group that has pictures of its own."""
_SERVER: Final = "http://lagwatch:8000"
"""The name of the server in the manual."""
NAMES: Final = ("fleet", "group", "report", "status", "top")
"""Of all PNG pictures."""
_VERDICTS_S: Final = 180
_CURVES_S: Final = 300
_MOST_WAIT_S: Final = 900
_WIDTH: Final = 1180
_COLUMNS: Final = 112
_TERMINAL: Final = """<!doctype html><meta charset="utf-8"><title>{title}</title>
<body style="margin:0;background:#0c0c0c"><pre id="screen" style="margin:0;padding:14px 18px;
display:inline-block;font:14px/1.3 'DejaVu Sans Mono',monospace;color:#d9d9d9;background:#0c0c0c"
><b style="color:#8fd18f">$ {command}</b>
{{code}}</pre>"""


def main() -> int:
    """Make all pictures anew."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place, browsing() as browser:
        folder = Path(place)
        with _demo(folder) as (base, prometheus):
            _boards(prometheus)
            _page(browser, base)
            _terminals(browser, base, folder)
            browser.open("about:blank")  # an open stream would hold the server up
        _report(browser, folder)
    return 0


@contextlib.contextmanager
def _demo(folder: Path) -> Iterator[tuple[str, Prometheus]]:
    """The address of a demo whose groups have their verdicts, and curves behind them.

    With a Prometheus that has scraped it.
    """
    (port,) = free_ports(1)
    base = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "lagwatch", "demo", "--port", str(port)]
    with (folder / "demo.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)  # noqa: S603 ours
    try:
        with scraping(f"127.0.0.1:{port}", folder, rules=RULES) as prometheus:
            for role in DEMO_GROUPS:
                eventually(
                    lambda role=role: _is_right(base, role),  # type: ignore[misc]
                    role.group,
                    timeout_s=_VERDICTS_S,
                )
            eventually(lambda: _trouble_s(base) > _CURVES_S, "long curves", timeout_s=_MOST_WAIT_S)
            yield base, prometheus
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def _is_right(base: str, role: Role) -> bool:
    with contextlib.suppress(OSError):
        status = _json(f"{base}/v3/kafka/{_CLUSTER}/consumer/{role.group}/status")["status"]
        return bool(status["status"] == role.status)
    return False


def _trouble_s(base: str) -> float:
    """For how long the group that is shown is in trouble."""
    seen = read(_json(f"{base}/api/v1/fleet"))
    return next(line.since_s or 0 for line in seen.lines if line.group == _SHOWN)


def _json(url: str) -> Any:  # noqa: ANN401 JSON
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 loopback
        return json.load(answer)


def _boards(prometheus: Prometheus) -> None:
    """What Grafana's code shows of the demo, board by board."""
    topic = next(role.topic for role in DEMO_GROUPS if role.group == _SHOWN)
    at_s = prometheus.last_scrape_s()
    for name in BOARDS:
        board = boards()[f"lagwatch-{name}"]
        every = list(panels(board))
        seen = shown(
            prometheus,
            every,
            choices={"cluster": _CLUSTER, "group": _SHOWN, "topic": topic, "find": ".*"},
            at_s=at_s,
            over_s=_CURVES_S,
        )
        drawn = picture(board["title"], every, seen)
        (FOLDER / f"board-{name}.svg").write_text(drawn, encoding="utf-8")


def _page(browser: Browser, base: str) -> None:
    browser.look(_WIDTH, 500, "light")
    browser.open(f"{base}/")
    eventually(lambda: "/s" in browser.text(".slope"), "the trend of the first group")
    browser.picture(FOLDER / "fleet.png")
    browser.look(_WIDTH, 1600, "light")
    browser.open(f"{base}/?group={_SHOWN}&of={_CLUSTER}")
    eventually(lambda: browser.text("#g-sentence") != "", "its sentence")
    eventually(lambda: browser.run("return !!document.querySelector('#g-past canvas')"), "curves")
    eventually(lambda: browser.text("#g-past-said") == "", "its past is drawn")
    bottom = "return document.querySelector('#past').getBoundingClientRect().bottom"
    browser.look(_WIDTH, int(browser.run(bottom)) + 14, "light")
    browser.picture(FOLDER / "group.png")


def _terminals(browser: Browser, base: str, folder: Path) -> None:
    """What the commands draw, in their colours."""
    seen = read(_json(f"{base}/api/v1/fleet"))
    with RemoteSource(base, timeout_s=10) as source:
        found = source.found(_CLUSTER, [line.group for line in seen.lines])
        seen = with_found(seen, {(_CLUSTER, group): each for group, each in found.items()})
        top = screen(seen, TopView(), width=_COLUMNS, height=len(seen.lines) + 6)
        _terminal(browser, folder, "top", f"lagwatch top --url {_SERVER}", top)
        (group,) = look(source, (_CLUSTER,), _SHOWN).groups
    console = _console()
    draw_group(console, group)
    _shoot(browser, folder, "status", f"lagwatch status {_SHOWN} --url {_SERVER}", console)


def _terminal(
    browser: Browser, folder: Path, name: str, command: str, drawn: RenderableType
) -> None:
    console = _console()
    console.print(drawn)
    _shoot(browser, folder, name, command, console)


def _console() -> Console:
    return Console(
        record=True,
        width=_COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
        emoji=False,
    )


def _shoot(browser: Browser, folder: Path, name: str, command: str, console: Console) -> None:
    page = folder / f"{name}.html"
    form = _TERMINAL.format(title=escape(name), command=escape(command))
    html = console.export_html(theme=MONOKAI, code_format=form, inline_styles=True)
    page.write_text(html, encoding="utf-8")
    browser.look(_WIDTH, 300, "dark")
    browser.open(page.as_uri())
    box = "const {width, height} = document.querySelector('#screen').getBoundingClientRect();"
    width, height = browser.run(f"{box} return [Math.ceil(width), Math.ceil(height)]")
    browser.look(width, height, "dark")
    browser.picture(FOLDER / f"{name}.png")


def _report(browser: Browser, folder: Path) -> None:
    """The page of a report, made by Spark."""
    # Spark and its rows take seconds to import
    from lagwatch.config.history import HistorySettings  # noqa: PLC0415
    from lagwatch.config.jobs import JobsSettings, ReportSettings  # noqa: PLC0415
    from lagwatch.jobs.report.build import ReportRequest, run_report  # noqa: PLC0415
    from lagwatch.jobs.report.deliver import write  # noqa: PLC0415
    from lagwatch.jobs.session import start  # noqa: PLC0415
    from lagwatch.jobs.tables import StoreRef  # noqa: PLC0415
    from tests.support.rolled import LONG_DAY, write_fleet  # noqa: PLC0415

    rolled = write_fleet(str(folder / "history"))
    spark = start(JobsSettings(master="local[2]", driver_memory_mb=1024), name="pictures")
    try:
        settings = ReportSettings(time_zone=LONG_DAY.zone.key, objective_s=60)
        request = ReportRequest(day=LONG_DAY, settings=settings)
        ref = StoreRef.of(rolled.url, HistorySettings())
        now_ms = LONG_DAY.to_ms + 3_600_000
        result = run_report(spark, ref, request, now_ms=now_ms, log_step=lambda *_: None)
    finally:
        spark.stop()
    page, *_ = write(result.report, folder / "report")
    browser.look(_WIDTH, 900, "light")
    browser.open(page.as_uri())
    browser.picture(FOLDER / "report.png")


if __name__ == "__main__":
    sys.exit(main())
