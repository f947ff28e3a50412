"""How the demo shows its groups."""

from dataclasses import dataclass, replace

from rich.table import Table

from lagwatch.core.words import duration
from lagwatch.demo.groups import Role

_COLOURS = {"OK": "green", "WARN": "yellow", "ERR": "red"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoLine:
    """One group and what lagwatch says of it."""

    role: Role
    status: str = ""
    worst: str = ""
    rule: str = ""
    lag: int | None = None
    time_lag_s: float | None = None
    right_since_s: float | None = None
    """When it got the verdict it has kept since."""

    def seen(
        self,
        *,
        status: str,
        worst: str,
        rule: str,
        lag: int,
        time_lag_s: float | None,
        since_s: float,
    ) -> "DemoLine":
        """The line after another look."""
        right = status == self.role.status and worst == self.role.worst
        first = since_s if self.right_since_s is None else self.right_since_s
        return replace(
            self,
            status=status,
            worst=worst,
            rule=rule,
            lag=lag,
            time_lag_s=time_lag_s,
            right_since_s=first if right else None,
        )

    @property
    def right(self) -> bool:
        """Does the group have the verdict it must get?"""
        return self.right_since_s is not None

    @property
    def now(self) -> str:
        return f"{self.status or 'unseen'} ({self.worst or self.rule or '-'})"


def table(lines: tuple[DemoLine, ...], since_s: float) -> Table:
    """All groups, as a table."""
    shown = Table(title=f"lagwatch demo, {since_s:.0f} s", expand=False)
    shown.add_column("group", no_wrap=True)
    shown.add_column("what it does", overflow="ellipsis", no_wrap=True, max_width=34)
    shown.add_column("status", no_wrap=True)
    shown.add_column("worst", no_wrap=True)
    shown.add_column("rule", overflow="ellipsis", no_wrap=True)
    for heading in ("lag", "time lag", "right since"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for line in lines:
        colour = _COLOURS.get(line.status, "dim")
        shown.add_row(
            line.role.group,
            line.role.story,
            f"[{colour}]{line.status or '…'}[/{colour}]",
            line.worst,
            line.rule,
            "?" if line.lag is None else f"{line.lag:,}",
            "?" if line.time_lag_s is None else duration(line.time_lag_s),
            "" if line.right_since_s is None else duration(line.right_since_s),
        )
    return shown


def plain(lines: tuple[DemoLine, ...]) -> str:
    """All groups on one line, for logs."""
    return " ".join(f"{line.role.group}={line.worst or line.status or '?'}" for line in lines)


def links(base: str) -> str:
    """What to try."""
    return "\n".join(
        (
            "Try:",
            f"  curl {base}/v3/kafka/demo/consumer",
            f"  curl {base}/v3/kafka/demo/consumer/click-stats/status",
            f"  curl {base}/v3/kafka/demo/consumer/mailer/lag",
            f"  curl {base}/readyz",
            f"  {base}/docs",
        )
    )
