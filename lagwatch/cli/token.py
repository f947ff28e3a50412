"""`lagwatch token`: make a token for the HTTP server."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lagwatch.cli.reporting import Exit, complain, reported
from lagwatch.named_files import require_file

EPILOG = """
The token is printed once, alone on standard output; the file keeps only its hash. A running
lagwatch reads `server.auth.tokens_file` again within seconds. To revoke a token, delete its line.

**Examples**

`lagwatch token prometheus --file /etc/lagwatch/tokens > prometheus.token`

`lagwatch token alice --scope operate --file /etc/lagwatch/tokens`
"""


class TokenScope(StrEnum):
    """What the holder may do; each includes those before it."""

    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"


@reported(Exit.ERROR)
def token(
    name: Annotated[str, typer.Argument(help="Who will hold it; shown in the log.")],
    *,
    scope: Annotated[
        TokenScope,
        typer.Option(help="operate: mute, acknowledge, forget, retry; admin: log level."),
    ] = TokenScope.READ,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Append the line here; without it, it is shown."),
    ] = None,
) -> None:
    """Make a token and the line for `server.auth.tokens_file`."""
    from lagwatch.config.tokens import NAME, line, new_token

    if NAME.fullmatch(name) is None:
        raise typer.BadParameter("use letters, digits, '.', '_', '@' and '-'", param_hint="NAME")
    made = new_token()
    text = line(name, scope.value, made)
    if file is None:
        complain(f"add this line to server.auth.tokens_file:\n{text}")
    else:
        before = _append(file, name, text)
        if before:
            complain(f"{name} holds {before + 1} tokens now: to revoke the old, delete their lines")
    typer.echo(made)


def _append(file: Path, name: str, text: str) -> int:
    """Append a line; returns how many there were of this name."""
    try:
        lines = []
        if file.exists():
            require_file(file)
            lines = file.read_text(encoding="utf-8").splitlines()
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a") as end:
            end.write(text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise typer.BadParameter(f"{file}: {reason}", param_hint="--file") from error
    return sum(line.split(maxsplit=1)[:1] == [name] for line in lines)
