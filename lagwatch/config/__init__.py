"""Typed configuration: one file per section; `load` lists every fault at once."""

from lagwatch.config.cluster import ClusterSettings
from lagwatch.config.evaluator import EvaluatorSettings
from lagwatch.config.log import LogSettings
from lagwatch.config.sasl import SaslSettings
from lagwatch.config.server import ServerSettings
from lagwatch.config.settings import Settings
from lagwatch.config.tls import TlsSettings
from lagwatch.config.windows import WindowSettings

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
