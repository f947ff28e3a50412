"""Kafka's own command line tools, the same version as the embedded broker."""

import subprocess
from pathlib import Path

from lagwatch.java import find_java
from lagwatch.kafka.embedded.jars import KAFKA_VERSION, JarSet, ensure_jars

_TOOLS = JarSet(
    title=f"Apache Kafka's tools {KAFKA_VERSION}",
    lock_file=Path(__file__).with_name(f"kafka-tools-{KAFKA_VERSION}.lock"),
)
_CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_WITHIN_S = 120


def consumer_groups(bootstrap: str, *arguments: str) -> str:
    """What `kafka-consumer-groups.sh` prints, errors included."""
    jars = f"{ensure_jars(jar_set=_TOOLS)}/*:{ensure_jars()}/*"
    command = [
        str(find_java(17, server="Kafka's tools")),
        "-Xmx128m",
        "-cp",
        jars,
        _CONSUMER_GROUPS,
    ]
    done = subprocess.run(
        [*command, "--bootstrap-server", bootstrap, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_WITHIN_S,
        check=False,
    )
    return done.stdout
