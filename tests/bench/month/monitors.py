"""The monitors under test: one per rule set, and how each is carried over a restart."""

import dataclasses
import os
from typing import Final

from lagwatch.config.cluster import ClusterSettings
from lagwatch.config.evaluator import EvaluatorSettings, WindowSettings
from lagwatch.core.judged import Judged
from lagwatch.core.model import RuleSet
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.checkpoint import capture
from lagwatch.monitor.checkpoint import restore as restore_parts
from lagwatch.monitor.checkpoint_file import decode, encode, pack, unpack
from lagwatch.monitor.settings import monitor_settings

RULE_SETS: Final = ("lagwatch", "burrow")
CHECKPOINT_EVERY_S: Final = 60
OFFSETS_TOPIC: Final = "__consumer_offsets"


def new_monitor(rules: str, round_s: int) -> ClusterMonitor:
    """A monitor with the defaults of the configuration, these rules, and rounds so far apart."""
    cluster = ClusterSettings(bootstrap="month:9092", log_end_interval_s=round_s)
    if os.environ.get("MONTH_JUDGES_TWICE"):
        Judged.compares_every = 1
    settings = monitor_settings(WindowSettings(), EvaluatorSettings(), cluster)
    return ClusterMonitor("month", dataclasses.replace(settings, rules=RuleSet(rules)))


def save(monitor: ClusterMonitor) -> bytes:
    """The file that the service would write now."""
    return encode({}, map(pack, capture(monitor)))


def restore(monitor: ClusterMonitor, saved: bytes) -> int:
    """Fill a new monitor from such a file; returns the position it goes on reading from."""
    restore_parts(monitor, unpack(*decode(saved)), offsets_topic=OFFSETS_TOPIC)
    return monitor.positions[0]
