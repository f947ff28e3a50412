"""`lagwatch serve`: the service."""

import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lagwatch.cli.options import (
    DEFAULT_CLUSTER,
    Address,
    Bootstrap,
    ClusterName,
    ConfigFile,
    configured,
)
from lagwatch.cli.reporting import Exit, reported

if TYPE_CHECKING:
    from lagwatch.config.settings import Settings

EPILOG = """
**Examples**

`lagwatch serve --bootstrap kafka-1:9092`

`lagwatch serve --bootstrap kafka-1:9092,kafka-2:9092 --cluster-name prod --address 127.0.0.1:8080`

`lagwatch serve -c /etc/lagwatch/lagwatch.toml`
"""


@reported(Exit.ERROR)
def serve(
    *,
    config: ConfigFile = None,
    bootstrap: Bootstrap = None,
    cluster_name: ClusterName = DEFAULT_CLUSTER,
    address: Address = None,
) -> None:
    """Watch clusters and answer over HTTP until stopped (Ctrl-C or SIGTERM)."""
    read = partial(
        configured, config, bootstrap=bootstrap, cluster_name=cluster_name, address=address
    )
    settings = read().settings

    from lagwatch import __version__, log, service
    from lagwatch.config.walk import hidden_texts
    from lagwatch_api import create_app

    log.configure(
        level=settings.log.level, form=settings.log.format, secrets=hidden_texts(settings)
    )

    def load() -> "Settings":
        """Read it again; the log hides the secrets of the new configuration, too."""
        if config is not None:
            _require_file(config)
        new = read().settings
        secrets = {*hidden_texts(settings), *hidden_texts(new)}
        log.configure(level=log.get_level(), form=settings.log.format, secrets=secrets)
        return new

    make_app = partial(create_app, hostname=socket.gethostname(), version=__version__)
    raise typer.Exit(service.run(settings, make_app, load))


def _require_file(config: Path) -> None:
    """A pipe is good for the start alone: to read it again stops the service.

    Raises:
        ConfigError: it is one.
    """
    from lagwatch.errors import ConfigError, Fault
    from lagwatch.named_files import require_file

    try:
        require_file(config)
    except OSError as error:
        problem, remedy = f"cannot be read: {error.strerror}", "Put a file in its place."
        fault = Fault(key=str(config), value="", problem=problem, remedy=remedy)
        raise ConfigError([fault]) from error
