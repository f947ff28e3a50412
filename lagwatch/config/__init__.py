"""Typed configuration: one file per section; `load` lists every fault at once."""

from lagwatch.config.cluster import ClusterSettings, SaslSettings, TlsSettings
from lagwatch.config.evaluator import EvaluatorSettings, WindowSettings
from lagwatch.config.settings import LogSettings, ServerSettings, Settings

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
