"""The text of /metrics: one consistent moment as text, made outside the event loop."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from lagwatch.clock import Clock
from lagwatch.config.settings import MetricsSettings
from lagwatch.memory import give_back
from lagwatch.metrics import own, table
from lagwatch.metrics.labels import NATIVE, Dialect, LabelBook
from lagwatch.metrics.metric import END_OF_OPENMETRICS, Format, GzipText, Metric, header
from lagwatch.metrics.native import COLUMNS
from lagwatch.metrics.profiles import PROFILES
from lagwatch.metrics.source import MetricSource
from lagwatch.metrics.state import ServiceState
from lagwatch.metrics.view import View
from lagwatch.ports.metrics import Exposition


class Exporter:
    """Answers on /metrics (`ports.Metrics`).

    `collect` runs on the event loop; what it returns must not change any more. Answers are made one
    at a time, so that several scrapers at once cost no more memory than one; those that wait for
    the same format share an answer.
    """

    def __init__(
        self,
        settings: MetricsSettings,
        *,
        collect: Callable[[], Awaitable[ServiceState]],
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._collect = collect
        self._clock = clock
        self._lock = asyncio.Lock()
        self._waiting: dict[Format, asyncio.Task[GzipText]] = {}
        """Answers that are not begun yet: who asks meanwhile gets the same."""
        self._process = CollectorRegistry(auto_describe=False)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._process)
        self._rounds = _histogram(table.ROUND_TIME, self._process)
        self._requests = _histogram(table.HTTP_TIME, self._process)
        self._sources = tuple(_sources(settings))
        self._scrapes = 0
        self._last_s: float | None = None

    def judged(self, cluster: str, took_s: float) -> None:
        """Count a round of judgement."""
        self._rounds.labels(cluster).observe(took_s)

    def answered(self, *, method: str, route: str, status: int, took_s: float) -> None:
        """Count an answer of the HTTP server (`ports.Metrics`)."""
        self._requests.labels(method, route, str(status)).observe(took_s)

    async def scrape(self, *, accept: str, accept_encoding: str) -> Exposition:
        """The newest moment, in the format and encoding that the client prefers."""
        form = negotiate(accept)
        zipped = accepts_gzip(accept_encoding)
        # a client that has gone is not noticed: one answer each would make a queue that never ends
        if form not in self._waiting:
            self._waiting[form] = asyncio.create_task(self._made(form), name="scrape")
        packed = await asyncio.shield(self._waiting[form])
        return Exposition(
            content_type=form.value,
            content_encoding="gzip" if zipped else "",
            size_bytes=packed.zipped_size_bytes if zipped else packed.size_bytes,
            chunks=packed.zipped if zipped else packed.plain(),
        )

    async def _made(self, form: Format) -> GzipText:
        async with self._lock:
            del self._waiting[form]
            began_s = self._clock.monotonic_s()
            packed = await asyncio.to_thread(self.render, await self._collect(), form)
            self._last_s = self._clock.monotonic_s() - began_s
            self._scrapes += 1
            return packed

    def render(self, state: ServiceState, form: Format) -> GzipText:
        """The complete answer, or an exception."""
        packed = GzipText(self._text(state, form))
        give_back()
        return packed

    def _text(self, state: ServiceState, form: Format) -> Iterator[str]:
        views = {
            cluster.health.cluster: View(
                cluster.snapshot,
                rebalances=cluster.rebalances,
                most_rows=self._settings.partition_budget,
                most_groups=self._settings.group_budget,
            )
            for cluster in state.clusters
            if cluster.snapshot is not None
        }
        books = {name: LabelBook(view) for name, view in views.items()}
        for source, names in self._sources:
            yield header(source.metric, form)
            for cluster, view in views.items():
                yield from source.lines(view, books[cluster], names)
        yield from self._own(state, views, form)
        if form is Format.OPENMETRICS:
            yield END_OF_OPENMETRICS

    def _own(self, state: ServiceState, views: Mapping[str, View], form: Format) -> Iterator[str]:
        scrapes = own.ScrapeTimes(scrapes=self._scrapes, last_s=self._last_s)
        for metric, samples in own.families(state, views, scrapes):
            yield header(metric, form) + own.text(metric, samples)
        if form is Format.OPENMETRICS:
            made: bytes = generate_openmetrics(self._process)  # type: ignore[no-untyped-call] # is untyped
            yield made.decode().removesuffix(END_OF_OPENMETRICS)
        else:
            yield generate_latest(self._process).decode()


# in the format of Prometheus, creation times would be gauges of their own
disable_created_metrics()  # type: ignore[no-untyped-call] # is untyped


def _histogram(metric: Metric, registry: CollectorRegistry) -> Histogram:
    return Histogram(
        metric.name, metric.help, metric.labels, registry=registry, buckets=metric.buckets
    )


def _sources(settings: MetricsSettings) -> Iterator[tuple[MetricSource, Dialect]]:
    for source in COLUMNS:
        yield source, NATIVE
    for name in settings.profiles:
        for source in PROFILES[name].columns:
            yield source, PROFILES[name].names


def negotiate(accept: str) -> Format:
    """OpenMetrics when the client takes it at least as willingly as the older format."""
    quality = _qualities(accept)
    openmetrics = quality.get("application/openmetrics-text", 0.0)
    plain = max(quality.get("text/plain", 0.0), quality.get("text/*", 0.0))
    return Format.OPENMETRICS if openmetrics and openmetrics >= plain else Format.PROMETHEUS


def accepts_gzip(accept_encoding: str) -> bool:
    """Does the client take gzip?"""
    quality = _qualities(accept_encoding)
    return quality.get("gzip", quality.get("*", 0.0)) > 0


def _qualities(header_value: str) -> dict[str, float]:
    """Accepted formats with their quality from 0 (refused) to 1.

    Source: RFC 9110, 12.4.2.
    """
    found: dict[str, float] = {}
    for item in header_value.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        weights = [part[2:] for part in parameters if part.startswith("q=")]
        found[name] = max(found.get(name, 0.0), _weight(weights[0]) if weights else 1.0)
    return found


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
