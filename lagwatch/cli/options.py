"""Flags that several commands share, the settings they make, and instants as users write them."""

import os
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:  # pydantic takes a while to import
    from collections.abc import Callable, Iterable

    from lagwatch.config.load import Loaded
    from lagwatch.config.settings import Settings
    from lagwatch.errors import Fault

DEFAULT_CLUSTER: Final = "local"

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        envvar="LAGWATCH_CONFIG",
        help="Configuration as TOML; `LAGWATCH_*` variables go before it.",
    ),
]
Bootstrap = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT[,…]", help="Brokers to ask first; no file is needed then."),
]
ClusterName = Annotated[
    str, typer.Option(metavar="NAME", help="What the cluster of --bootstrap is called.")
]
Address = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 is any free one.")
]


def configured(
    config: Path | None,
    *,
    bootstrap: str | None = None,
    cluster_name: str = DEFAULT_CLUSTER,
    address: str | None = None,
    beyond: "Callable[[Settings], Iterable[Fault]]" = lambda _: (),
) -> "Loaded":
    """The configuration from flags, environment and file; `beyond` finds more faults.

    Raises:
        ConfigError: with all its faults.
    """
    from lagwatch.config.load import Override, load_with_origins

    flags = []
    if bootstrap is not None:
        path = ("clusters", cluster_name, "bootstrap")
        flags.append(Override(path=path, value=bootstrap, origin="--bootstrap"))
    if address is not None:
        flags.append(Override(path=("server", "address"), value=address, origin="--address"))
    return load_with_origins(config, os.environ, flags, beyond=beyond)


INSTANT_HELP: Final = "as 2026-11-21, or an instant: 2026-11-21T03:10:00Z."


def instant(text: str, flag: str, zone: tzinfo = UTC) -> datetime:
    """An instant, or the first instant of a day; without a zone of its own it is in `zone`.

    Raises:
        BadParameter: it is no day and no instant.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no day and no instant: write it {INSTANT_HELP}", param_hint=flag
        ) from None
    return found.replace(tzinfo=zone) if found.tzinfo is None else found.astimezone(zone)


def instant_ms(text: str, flag: str, zone: tzinfo = UTC) -> int:
    """The same in epoch milliseconds.

    Raises:
        BadParameter: it is no day and no instant.
    """
    return round(instant(text, flag, zone).timestamp() * 1000)


def user() -> str:
    """Name of the user who calls; "somebody" where the system knows none."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may run as a number without a name
        return "somebody"
