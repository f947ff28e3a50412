"""The demo: a real broker, groups that behave and misbehave, and lagwatch telling them apart."""

from lagwatch.demo.run import run

__all__ = ["run"]
