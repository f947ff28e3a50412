"""The monitors under test: one per rule set, and how each is carried over a restart."""

import dataclasses
from typing import Final

from lagwatch.config.evaluator import EvaluatorSettings, WindowSettings
from lagwatch.core.model import RuleSet
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.checkpoint import capture
from lagwatch.monitor.checkpoint import restore as restore_parts
from lagwatch.monitor.checkpoint_file import decode, encode, pack, unpack
from lagwatch.monitor.settings import monitor_settings

RULE_SETS: Final = ("lagwatch", "burrow")
CHECKPOINT_EVERY_S: Final = 60
OFFSETS_TOPIC: Final = "__consumer_offsets"


def new_monitor(rules: str) -> ClusterMonitor:
    """A monitor with the defaults of the configuration and these rules."""
    settings = monitor_settings(WindowSettings(), EvaluatorSettings())
    return ClusterMonitor("month", dataclasses.replace(settings, rules=RuleSet(rules)))


def save(monitor: ClusterMonitor) -> bytes:
    """The file that the service would write now."""
    return encode({}, map(pack, capture(monitor)))


def restore(monitor: ClusterMonitor, saved: bytes) -> int:
    """Fill a new monitor from such a file; returns the position it goes on reading from."""
    restore_parts(monitor, unpack(*decode(saved)), offsets_topic=OFFSETS_TOPIC)
    return monitor.positions[0]
