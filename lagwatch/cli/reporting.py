"""From errors to messages and exit codes; users never see a traceback for their own mistake."""

import functools
import os
import sys
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

import typer

from lagwatch.core.words import printable
from lagwatch.errors import ConfigError, LagwatchError

if TYPE_CHECKING:
    from lagwatch.config.settings import Settings

P = ParamSpec("P")
R = TypeVar("R")


class Exit(IntEnum):
    """Exit codes; those of `status` are the ones Nagios expects."""

    OK = 0
    WARNING = 1
    ERROR = 2
    UNKNOWN = 3
    BAD_INPUT = 2
    """Configuration, document or arguments cannot be used."""
    INTERRUPTED = 130


OWN_CA: Final = "If its certificate is of a CA of your own, name the CA's file in SSL_CERT_FILE."
"""What to do where a server's certificate cannot be verified."""


def complain(message: str) -> None:
    """One message on stderr."""
    lines = [printable(line) for line in message.split("\n")]
    typer.echo("lagwatch: " + "\n".join(lines), err=True)


def hide_secrets(settings: "Settings") -> None:
    """Hide them in all texts of this command, which says itself what is wrong and logs nothing."""
    from lagwatch import log
    from lagwatch.config.walk import hidden_texts

    log.configure(level="fatal", form=settings.log.format, secrets=hidden_texts(settings))


def reported(
    otherwise: Exit = Exit.BAD_INPUT,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Turn the errors of a command into messages; faults of the configuration exit with 2.

    Every other error of ours exits with `otherwise`.
    """

    def decorate(command: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(command)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return command(*args, **kwargs)
            except ConfigError as error:
                complain(_faults(error))
                raise typer.Exit(otherwise if otherwise is Exit.UNKNOWN else 2) from None
            except LagwatchError as error:
                complain(str(error))
                raise typer.Exit(otherwise) from None
            except BrokenPipeError:
                _leave_the_pipe()
                raise typer.Exit(Exit.OK) from None
            except KeyboardInterrupt:
                raise typer.Exit(Exit.INTERRUPTED) from None

        return guarded

    return decorate


def _faults(error: ConfigError) -> str:
    count = len(error.faults)
    head = (
        "the configuration has a fault:" if count == 1 else f"{count} faults in the configuration:"
    )
    return "\n".join([head, *(f"  {fault}" for fault in error.faults)])


def _leave_the_pipe() -> None:
    """Nothing reads our output any more: send the flush at exit to the null device."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
