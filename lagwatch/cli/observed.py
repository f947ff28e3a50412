"""A short look at clusters from this process, for commands that ask no running lagwatch."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lagwatch.cli.options import DEFAULT_CLUSTER, configured
from lagwatch.cli.reporting import hide_secrets
from lagwatch.errors import NotFoundError

if TYPE_CHECKING:  # they take a while to import
    from lagwatch.service import ShortLook

WAIT_S: Final = 30.0
Wait = Annotated[float, typer.Option(min=0.1, help="Seconds to wait for answers, at most.")]
Watch = Annotated[
    str,
    typer.Option(
        "--for", metavar="DURATION", help="Without --url: watch for so long; 0 = one look."
    ),
]
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)?")


def observed(
    config: Path | None, bootstrap: str | None, cluster: str | None, *, wait_s: float, watch: str
) -> "ShortLook":
    """Watch the configured clusters, or only `cluster`, for the time that `watch` says.

    Raises:
        ConfigError: the configuration cannot be used.
        NotFoundError: the cluster is not configured.
        BadParameter: `watch` is no duration.
    """
    for_s = _seconds(watch)
    settings = configured(
        config, bootstrap=bootstrap, cluster_name=cluster or DEFAULT_CLUSTER
    ).settings
    if cluster is not None:
        if cluster not in settings.clusters:
            raise NotFoundError(kind="cluster", name=cluster)
        settings = settings.model_copy(update={"clusters": {cluster: settings.clusters[cluster]}})

    from lagwatch import service

    hide_secrets(settings)
    return service.observe(settings, wait_s=wait_s, for_s=for_s)


def _seconds(text: str) -> float:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise typer.BadParameter(
            f"{text!r} is no duration. Write 0, 10s or 2m.", param_hint="--for"
        )
    return float(found[1]) * {"m": 60, "h": 3600}.get(found[2], 1)
