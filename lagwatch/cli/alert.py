"""`lagwatch alert`: try channels and templates, tune policies on the past, mute."""

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lagwatch.cli import alert_mute, alert_state
from lagwatch.cli.options import INSTANT_HELP, ConfigFile, configured, instant_ms, user
from lagwatch.cli.output import (
    aligned,
    console,
    plain,
    print_json,
    short_name,
    terminal_width,
)
from lagwatch.cli.reporting import Exit, complain, hide_secrets, reported
from lagwatch.core.words import counted

if TYPE_CHECKING:
    from lagwatch.config.alerts import AlertsSettings
    from lagwatch.config.alerts_channels import ChannelSettings
    from lagwatch.notify.backtest import BackTest, Sample, WouldSend

alert = typer.Typer(
    no_args_is_help=True,
    help="Try channels and templates, tune policies on the past, mute; see and retry notices.",
)
alert.add_typer(alert_mute.mute, name="mute")
alert_state.register(alert)

_MOST_LINES: Final = 1000

_TEST = """
**Examples**

`lagwatch alert test -c lagwatch.toml`

`lagwatch alert test ops pager -c lagwatch.toml`

`lagwatch alert test pager --no-close -c lagwatch.toml`
"""
_RENDER = """
**Examples**

`lagwatch alert render body.json.j2`

`lagwatch alert render mail.html.j2 --html --close`
"""
_BACKTEST = """
**Examples**

`lagwatch alert backtest --policy new.toml --from 2026-11-01 --to 2026-11-08 -c lagwatch.toml`

`lagwatch alert backtest --policy new.toml --samples samples.csv`
"""


@alert.command("test", epilog=_TEST)
@reported(Exit.ERROR)
def send_sample(
    chosen: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CHANNEL]...", help="Names of channels, as configured; all, if none is given."
        ),
    ] = None,
    *,
    config: ConfigFile = None,
    close: Annotated[
        bool | None,
        typer.Option(
            "--close/--no-close",
            help="Send the end of the sample's incident afterwards; if not given, only to channels "
            "whose receiver keeps it open until then (PagerDuty).",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Send a real sample, once, to some channels or all, and show what each receiver answers.

    Its texts begin with TEST, and say who asked for it.
    """
    settings = configured(config).settings
    alerts, channels = settings.alerts, dict(settings.alerts.channels())

    from lagwatch.errors import ConfigError, Fault

    hide_secrets(settings)  # receivers quote what they were sent

    names = list(dict.fromkeys(chosen or channels))
    faults = [
        Fault(
            key=f"channel {name}",
            value="",
            problem="no channel has this name",
            remedy=f"Known: {', '.join(channels) or 'none'}.",
        )
        for name in names
        if name not in channels
    ]
    if not names:
        remedy = "Add one, for example [alerts.webhook.NAME]."
        faults = [Fault(key="channel", value="", problem="there is none", remedy=remedy)]
    if faults:
        raise ConfigError(faults)
    failed = False
    for name in names:
        answers, problem = asyncio.run(_send_samples(name, channels[name], alerts, close=close))
        for answer in answers:
            typer.echo(f"{name}: {answer}" if len(names) > 1 else answer)
        if problem:
            complain(f"{name}: {problem}")
            failed = True
    if failed:
        raise typer.Exit(Exit.ERROR)


async def _send_samples(
    name: str, settings: "ChannelSettings", alerts: "AlertsSettings", *, close: bool | None
) -> tuple[list[str], str]:
    """(the receivers' answers, the reason why a sample was refused or "")."""
    import socket
    import uuid

    from lagwatch.clock import SystemClock
    from lagwatch.errors import ConfigError, NotifyError
    from lagwatch.notify.changes import page_link
    from lagwatch.notify.channels.registry import kind_of, open_channel
    from lagwatch.notify.sample import GROUP, LASTS_MS, sample_messages

    clock = SystemClock()
    try:
        receiver = open_channel(name, settings, clock)
    except ConfigError as error:
        return [], str(error)
    samples = sample_messages(
        name,
        at_ms=clock.now_ms() - LASTS_MS,  # so that it does not end in the future
        id_=f"test-{uuid.uuid4().hex}",
        zone=alerts.time_zone,
        url=page_link(alerts.page_url.get_secret_value(), *GROUP),
        test=f"{user()} on {socket.gethostname()}",
    )
    closes = kind_of(settings).needs_ends if close is None else close
    answers: list[str] = []
    try:
        for message in samples if closes else samples[:1]:
            async with asyncio.timeout(settings.timeout_s):
                answers.append(await receiver.send(message))
    except (NotifyError, TimeoutError) as error:
        return answers, str(error) or f"no answer within {settings.timeout_s:g} s"
    except Exception as error:  # noqa: BLE001 one channel that fails in any way stops no other
        return answers, f"cannot send: {type(error).__name__}: {error}"
    finally:
        await receiver.close()
    return answers, ""


@alert.command(epilog=_RENDER)
@reported()
def render(
    file: Annotated[Path, typer.Argument(help="A template, as for the body of a webhook.")],
    *,
    html: Annotated[bool, typer.Option("--html", help="Escape as for the HTML of e-mail.")] = False,
    close: Annotated[bool, typer.Option("--close", help="Show the end of an incident.")] = False,
) -> None:
    """Show what a template makes of a sample, or what is wrong with it."""
    from lagwatch.errors import ConfigError, Fault
    from lagwatch.notify.render import Templates
    from lagwatch.notify.sample import sample_messages

    try:
        source = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        fault = Fault(
            key=str(file), value="", problem=f"cannot be read: {error}", remedy="Check the path."
        )
        raise ConfigError([fault]) from error
    templates = Templates(html=html)
    faults = templates.faults(str(file), source)
    if faults:
        raise ConfigError(faults)
    typer.echo(templates.compile(source).render(sample_messages()[1 if close else 0]))


@alert.command(epilog=_BACKTEST)
@reported()
def backtest(
    *,
    policy: Annotated[
        Path,
        typer.Option(
            "--policy",
            metavar="FILE",
            help="TOML with [alerts.policies.NAME]; channels and the like may be in --config.",
        ),
    ],
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help=f"Since when, {INSTANT_HELP}")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Before when, as --from.")
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Samples as CSV or JSON lines, instead of the history."),
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Only this cluster.")] = None,
    group: Annotated[str | None, typer.Option(help="Only this group.")] = None,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Replay the recorded past under other policies: which notices would have been sent?

    Policies are matched by cluster and group; a policy for certain topics takes no part, because
    the history of a group is that of all its topics. Mutes are left out.
    """
    from lagwatch.config.load import load_policies
    from lagwatch.notify.backtest import BackTest, from_file
    from lagwatch.notify.policies import PolicyBook
    from lagwatch.ports.history import EVER_MS

    book = PolicyBook(load_policies(policy, config, os.environ).alerts)
    from_ms = instant_ms(since, "--from") if since else 0
    to_ms = instant_ms(until, "--to") if until else EVER_MS
    if samples is not None:
        chosen = [
            sample
            for sample in from_file(samples, from_ms=from_ms, to_ms=to_ms)
            if cluster in (None, sample.cluster) and group in (None, sample.group)
        ]
    else:
        chosen = _recorded(config, from_ms, to_ms, cluster, group)
    if not chosen:
        place = f"{samples}" if samples is not None else "the history"
        complain(f"nothing to replay: {place} holds no such samples. Check --from, --to, --config.")
        raise typer.Exit(Exit.UNKNOWN)
    run = BackTest(book=book)
    _show(run, list(run.replay(chosen)), as_json=as_json)


def _recorded(
    config: Path | None, from_ms: int, to_ms: int, cluster: str | None, group: str | None
) -> "list[Sample]":
    from lagwatch.history.drivers.registry import open_store
    from lagwatch.notify.backtest import from_history

    store = open_store(configured(config).settings.history)
    try:
        return from_history(store, from_ms=from_ms, to_ms=to_ms, cluster=cluster, group=group)
    finally:
        store.close()


def _show(run: "BackTest", notices: "list[WouldSend]", *, as_json: bool) -> None:
    if as_json:
        answer = {
            "samples": run.samples,
            "groups": len(run.groups),
            "notices": [_as_json(notice) for notice in notices],
            "per_group": [
                {"cluster": cluster, "group": name, "notices": count}
                for (cluster, name), count in run.sent.most_common()
            ],
        }
        print_json([answer], single=True)
        return
    screen = console()
    for notice in notices[:_MOST_LINES]:
        at = datetime.fromtimestamp(notice.at_ms / 1000, UTC).isoformat(" ", "seconds")
        line = (
            f"{at}  {notice.event.value:<11} {notice.severity:<4} "
            f"{short_name(f'{notice.cluster}/{notice.group}')}  ({notice.reason}; {notice.policy})"
        )
        screen.print(plain(line), soft_wrap=True)
    if len(notices) > _MOST_LINES:
        screen.print(f"… and {len(notices) - _MOST_LINES} more; --json shows all")
    rows = [("cluster", "group", "notices")]
    for (cluster, name), count in run.sent.most_common():
        rows.append((short_name(cluster), short_name(name), str(count)))
    for row in aligned(rows, right={2}, most=terminal_width(screen)):
        screen.print(plain(row), soft_wrap=True)
    counts = (len(notices), "notice"), (run.samples, "sample"), (len(run.groups), "group")
    sent, samples, groups = (counted(number, noun) for number, noun in counts)
    screen.print(f"{sent} from {samples} of {groups}")


def _as_json(notice: "WouldSend") -> dict[str, object]:
    return {
        "at_ms": notice.at_ms,
        "cluster": notice.cluster,
        "group": notice.group,
        "policy": notice.policy,
        "event": notice.event.value,
        "reason": notice.reason,
        "severity": notice.severity,
    }


__all__ = ["alert"]
