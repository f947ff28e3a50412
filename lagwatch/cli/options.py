"""Flags that several commands share, and the settings they make."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:  # pydantic takes a while to import
    from lagwatch.config.load import Loaded

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
) -> "Loaded":
    """The configuration from flags, environment and file.

    Raises:
        ConfigError: with all its faults.
    """
    from lagwatch.config.load import load_with_origins
    from lagwatch.config.overrides import Given

    flags = []
    if bootstrap is not None:
        path = ("clusters", cluster_name, "bootstrap")
        flags.append(Given(path=path, value=bootstrap, origin="--bootstrap"))
    if address is not None:
        flags.append(Given(path=("server", "address"), value=address, origin="--address"))
    return load_with_origins(config, os.environ, flags)
