"""`python -m lagwatch.kafka.embedded`: fetch Kafka's jars, or run a broker until Ctrl-C."""

import argparse
import contextlib
import signal
import sys

from lagwatch.errors import LagwatchError
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.kafka.embedded.jars import ensure_jars


def main() -> int:
    """Run the command line; the exit status is 1 when a part is missing or does not start."""
    parser = argparse.ArgumentParser(prog="python -m lagwatch.kafka.embedded", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("jars", help="download and check Kafka's jars, print their directory")
    run = commands.add_parser("run", help="run a cluster until Ctrl-C, print its bootstrap servers")
    run.add_argument("--brokers", type=int, default=1)
    chosen = parser.parse_args()
    try:
        return _run(chosen)
    except LagwatchError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _run(chosen: argparse.Namespace) -> int:
    if chosen.command == "jars":
        sys.stdout.write(f"{ensure_jars()}\n")
    else:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with (
            contextlib.suppress(KeyboardInterrupt),
            EmbeddedKafka(brokers=chosen.brokers) as kafka,
        ):
            sys.stdout.write(f"{kafka.bootstrap_servers}\n")
            sys.stdout.flush()
            while True:
                signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
