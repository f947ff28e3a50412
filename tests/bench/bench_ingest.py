"""Three million commits out of the real `__consumer_offsets`, against a bare consume loop."""

import subprocess
import sys
from collections.abc import Iterator

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.bench.commit_load import (
    OFFSETS_PARTITIONS,
    OFFSETS_TOPIC,
    Load,
    make_topics,
    write_commits,
)
from tests.bench.figures import Figure
from tests.bench.serving import cost_until_ready

LOAD = Load(groups=1000, topics=20, partitions=50, topics_per_group=4)
SWEEPS = 15
"""200,000 rows x 15 = 3 M records."""

_BARE_LOOP = """
import resource, sys
from confluent_kafka import Consumer, TopicPartition
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "bare",
                     "enable.auto.commit": False, "check.crcs": False})
partitions = [TopicPartition(sys.argv[2], number, 0) for number in range(int(sys.argv[3]))]
wanted = sum(consumer.get_watermark_offsets(each, timeout=30)[1] for each in partitions)
consumer.assign(partitions)
before = resource.getrusage(resource.RUSAGE_SELF)
read = 0
while read < wanted:
    read += len(consumer.consume(10000, timeout=1))
after = resource.getrusage(resource.RUSAGE_SELF)
print(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
"""


def run() -> Iterator[Figure]:
    with EmbeddedKafka(offsets_partitions=OFFSETS_PARTITIONS) as kafka:
        make_topics(kafka, LOAD)
        records = write_commits(kafka, LOAD, sweeps=SWEEPS)
        bare_s = min(bare_loop_cpu_s(kafka) for _ in range(2))
        # what the service costs to start, without a backlog
        idle = cost_until_ready(kafka, start="latest")
        full = cost_until_ready(kafka)
    ours_s = full.cpu_s - idle.cpu_s
    print(
        f"{records} records: bare {bare_s:.2f} CPU s, ours {ours_s:.2f} CPU s"
        f" (start-up {idle.cpu_s:.2f}), {full.rows} rows",
        file=sys.stderr,
    )
    assert full.rows == LOAD.rows
    yield Figure(name="ingest_cpu_to_bare_loop", value=ours_s / bare_s, unit="x", target=2.3)


def bare_loop_cpu_s(kafka: EmbeddedKafka) -> float:
    """CPU seconds of the loop that only takes the records."""
    command = [sys.executable, "-c", _BARE_LOOP, kafka.bootstrap_servers, OFFSETS_TOPIC]
    done = subprocess.run(
        [*command, str(OFFSETS_PARTITIONS)], check=True, capture_output=True, text=True, timeout=300
    )
    return float(done.stdout)
