"""The configuration in Burrow's words, for `/v3/config`.

What lagwatch does not have is given with Burrow's empty value, so that a client finds every key.

Source: Burrow, core/internal/httpserver/structs.go and config.go.
"""

from collections.abc import Mapping
from math import ceil
from typing import Final

from lagwatch.config.cluster import ClusterSettings
from lagwatch.config.settings import Settings

_ONE_MODULE: Final = ("default",)
Answer = dict[str, object]


class BurrowView:
    """Implements `lagwatch.ports.reports.BurrowSettings`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def main(self) -> Mapping[str, object]:
        return {
            "general": {
                "pidfile": "",
                "stdout-logfile": "",
                "access-control-allow-origin": self._settings.server.allow_origin,
            },
            "logging": {
                "filename": "",
                "max-size": 0,
                "max-backups": 0,
                "max-age": 0,
                "use-local-time": False,
                "use-compression": False,
                "level": self._settings.log.level,
            },
            "zookeeper": {"servers": None, "timeout": 0, "root-path": ""},
            "httpserver": {
                "default": {"address": self._settings.server.address, "tls": "", "timeout": 0}
            },
        }

    def modules(self, coordinator: str) -> tuple[str, ...]:
        match coordinator:
            case "cluster" | "consumer":
                return tuple(sorted(self._settings.clusters))
            case "storage" | "evaluator":
                return _ONE_MODULE
            case _:
                return ()

    def module(self, coordinator: str, name: str) -> Mapping[str, object] | None:
        if name not in self.modules(coordinator):
            return None
        match coordinator:
            case "cluster":
                return _cluster(name, self._settings.clusters[name])
            case "consumer":
                return _consumer(name, self._settings.clusters[name])
            case "evaluator":
                return self._evaluator()
            case _:
                return self._storage()

    def _evaluator(self) -> Answer:
        return {
            "class-name": "caching",
            "expire-cache": ceil(self._settings.evaluator.interval_s),
        }

    def _storage(self) -> Answer:
        windows = self._settings.windows
        return {
            "class-name": "inmemory",
            "intervals": windows.intervals,
            "min-distance": ceil(windows.min_distance_s),
            "group-allowlist": "",
            "expire-group": ceil(windows.expire_group_s),
        }


def _cluster(name: str, cluster: ClusterSettings) -> Answer:
    return {
        "class-name": "kafka",
        "servers": list(cluster.bootstrap),
        "client-profile": _profile(name, cluster),
        "topic-refresh": ceil(cluster.topic_interval_s),
        "offset-refresh": ceil(cluster.log_end_interval_s),
    }


def _consumer(name: str, cluster: ClusterSettings) -> Answer:
    return {
        "class-name": "kafka",
        "cluster": name,
        "servers": list(cluster.bootstrap),
        "group-allowlist": cluster.group_allow,
        "zookeeper-path": "",
        "zookeeper-timeout": 0,
        "client-profile": _profile(name, cluster),
        "offsets-topic": cluster.offsets_topic,
        "start-latest": cluster.start == "latest",
    }


def _profile(name: str, cluster: ClusterSettings) -> Answer:
    return {
        "name": name,
        "client-id": cluster.client_id,
        "kafka-version": "",  # the client finds out by itself
        "tls": _tls(name, cluster),
        "sasl": _sasl(name, cluster),
    }


def _tls(name: str, cluster: ClusterSettings) -> Answer | None:
    tls = cluster.tls
    if not tls.enabled:
        return None
    return {
        "name": name,
        "noverify": not tls.verify,
        "certfile": str(tls.cert_file or ""),
        "keyfile": str(tls.key_file or ""),
        "cafile": str(tls.ca_file or ""),
    }


def _sasl(name: str, cluster: ClusterSettings) -> Answer | None:
    sasl = cluster.sasl
    if sasl is None:
        return None
    return {"name": name, "handshake-first": True, "username": sasl.username or ""}
