"""A process of its own that asks about a group, as a collector does."""

import json
import subprocess
import sys
import time
from pathlib import Path

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support import coordinator_child

_EVERY_S = 0.5
_TIMES = 120


class Asked:
    """A group that one process asks about, again and again."""

    def __init__(self, kafka: EmbeddedKafka, group: str) -> None:
        command = [sys.executable, str(Path(coordinator_child.__file__))]
        self.process = subprocess.Popen(
            [*command, kafka.bootstrap_servers, group],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def known(self) -> tuple[int, int]:
        """Its coordinator and committed offset, once there are both.

        Raises:
            ChildProcessError: the process was aborted.
        """
        for _ in range(_TIMES):
            coordinator, offset = self.ask()
            if coordinator is not None and offset is not None:
                return coordinator, offset
            time.sleep(_EVERY_S)  # noqa: TID251 asks a process of its own
        raise TimeoutError

    def ask(self) -> list[int | None]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise ChildProcessError from None
        line = self.process.stdout.readline()
        if not line:
            raise ChildProcessError
        answer: list[int | None] = json.loads(line)
        return answer

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()
