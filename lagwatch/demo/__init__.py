"""The demo: a real broker, groups that keep up, groups in trouble, and the verdicts on them."""

from lagwatch.demo.run import run

__all__ = ["run"]
