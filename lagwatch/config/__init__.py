"""Typed configuration: one file per section; `load` lists every fault at once."""

from lagwatch.config.cluster import ClusterSettings
from lagwatch.config.evaluator import EvaluatorSettings, WindowSettings
from lagwatch.config.log import LogSettings
from lagwatch.config.security import SaslSettings, TlsSettings
from lagwatch.config.server import ServerSettings
from lagwatch.config.settings import Settings

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
