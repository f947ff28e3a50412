"""A real Prometheus scrapes a real lagwatch that watches groups in every state on a real broker."""

import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.command import serving
from tests.support.dashboards import RULES
from tests.support.kafka import commit, create_topic, produce, unique
from tests.support.prometheus import Prometheus, scraping
from tests.support.waiting import eventually

DEADLINE_S = 180
CLUSTER = "here"


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Groups in every state, and who watches them."""

    prometheus: Prometheus
    url: str
    topic: str
    """Of the group that catches up."""
    catching_up: str
    stopped: str
    stopped_too: str
    idle: str


@contextmanager
def watched_scene(kafka: EmbeddedKafka, folder: Path) -> Iterator[Scene]:
    """A group that catches up with a member, one that stopped and lost messages, and more.

    `stopped_too` lost nothing, and its time lag is known; `idle` has read everything.
    """
    topic, lossy, quiet = (
        create_topic(kafka, partitions=2),
        create_topic(kafka),
        create_topic(kafka),
    )
    catching_up, stopped = unique("catching-up"), unique("stopped")
    stopped_too, idle = unique("stopped-too"), unique("idle")
    produce(kafka, topic, 100)
    produce(kafka, lossy, 50)
    produce(kafka, quiet, 10)
    commit(kafka, stopped_too, quiet, 5)
    commit(kafka, idle, lossy, 50)
    commit(kafka, catching_up, topic, 100)
    commit(kafka, stopped, lossy, 10)
    remove(kafka, lossy, before=20)
    with serving(folder / "log", "--config", str(_configuration(kafka, folder))) as url:
        target = url.removeprefix("http://")
        with scraping(target, folder, rules=RULES) as prometheus:
            eventually(
                lambda: bool(prometheus.query(f'lagwatch_lag_messages{{group="{stopped}"}}')),
                "the first scrape has arrived",
                timeout_s=DEADLINE_S,
            )
            _deploy(url, stopped)
            _commit_where_the_time_is_known(kafka, stopped_too, quiet, prometheus)
            with _traffic(kafka, catching_up, topic):
                yield Scene(
                    prometheus=prometheus,
                    url=url,
                    topic=topic,
                    catching_up=catching_up,
                    stopped=stopped,
                    stopped_too=stopped_too,
                    idle=idle,
                )


def _deploy(url: str, group: str) -> None:
    """NoticeEvent lagwatch that a version of the group went live."""
    order = urllib.request.Request(  # noqa: S310
        f"{url}/api/v1/clusters/{CLUSTER}/groups/{group}/deployments",
        data=b'{"version": "1.0"}',
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(order, timeout=DEADLINE_S) as answer:  # noqa: S310
        assert answer.status == HTTPStatus.CREATED


def _configuration(kafka: EmbeddedKafka, folder: Path) -> Path:
    path = folder / "lagwatch.toml"
    path.write_text(
        f"""
        [server]
        address = "127.0.0.1:0"
        [log]
        format = "json"
        [evaluator]
        interval_s = 0.5
        stop_after_s = 10
        stall_after_s = 10
        loss_shown_s = 2
        [history]
        url = "{folder / "history"}"
        spool = "{folder / "spool"}"
        [alerts]
        file = "{folder / "alerts.sqlite"}"
        [alerts.webhook.nobody]
        url = "http://127.0.0.1:9/"
        [clusters.{CLUSTER}]
        bootstrap = "{kafka.bootstrap_servers}"
        log_end_interval_s = 0.5
        group_interval_s = 1.0
        """
    )
    return path


def remove(kafka: EmbeddedKafka, topic: str, *, before: int) -> None:
    """Take the oldest messages away, as retention does."""
    admin = AdminClient(kafka.admin_config())
    (result,) = admin.delete_records([TopicPartition(topic, 0, before)]).values()
    result.result(DEADLINE_S)


def _commit_where_the_time_is_known(
    kafka: EmbeddedKafka, group: str, topic: str, prometheus: Prometheus
) -> None:
    """Commit behind messages that arrived while lagwatch watched: the log held 10 before."""
    log_end = f'lagwatch_log_end_offset{{topic="{topic}"}}'
    eventually(lambda: bool(prometheus.query(f"{log_end} == 10")), "lagwatch saw the old log end")
    produce(kafka, topic, 10)
    eventually(lambda: bool(prometheus.query(f"{log_end} == 20")), "lagwatch saw the new log end")
    commit(kafka, group, topic, 12)


@contextmanager
def _traffic(kafka: EmbeddedKafka, group: str, topic: str) -> Iterator[None]:
    """Messages come at once; a member reads them bit by bit, so that its lag shrinks."""
    produce(kafka, topic, 5000)
    over = threading.Event()

    def read() -> None:
        consumer = Consumer(
            kafka.admin_config()
            | {"group.id": group, "client.id": "reader", "enable.auto.commit": False}
        )
        try:
            consumer.subscribe([topic])
            while not over.wait(0.2):
                if consumer.consume(5, 0.5):
                    consumer.commit(asynchronous=False)
        finally:
            consumer.close()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(DEADLINE_S)
