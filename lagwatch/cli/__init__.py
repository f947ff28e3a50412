"""The `lagwatch` command: one file per subcommand."""

from lagwatch.cli.app import app, main

__all__ = ["app", "main"]
