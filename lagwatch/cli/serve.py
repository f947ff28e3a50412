"""`lagwatch serve`: the service."""

import socket
from functools import partial

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
    settings = configured(
        config, bootstrap=bootstrap, cluster_name=cluster_name, address=address
    ).settings

    from lagwatch import __version__, log, service
    from lagwatch.config.walk import hidden_texts
    from lagwatch_api import create_app

    log.configure(
        level=settings.log.level, form=settings.log.format, secrets=hidden_texts(settings)
    )
    make_app = partial(create_app, hostname=socket.gethostname(), version=__version__)
    raise typer.Exit(service.run(settings, make_app))
