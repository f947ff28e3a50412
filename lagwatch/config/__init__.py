"""Typed configuration: one file per section; `load` lists every fault at once."""

from lagwatch.config.cluster import ClusterSettings, SaslSettings, TlsSettings
from lagwatch.config.evaluator import EvaluatorSettings, WindowSettings
from lagwatch.config.server import ServerSettings
from lagwatch.config.settings import LogSettings, Settings

__all__ = [
    "ClusterSettings",
    "EvaluatorSettings",
    "LogSettings",
    "SaslSettings",
    "ServerSettings",
    "Settings",
    "TlsSettings",
    "WindowSettings",
]
