"""The demo while lagwatch is too busy to answer, or has ended."""

import subprocess
import sys

import pytest
from rich.console import Console

from lagwatch.demo.groups import DEMO_GROUPS
from lagwatch.demo.run import DemoError, _watch
from lagwatch.kafka.embedded.ports import free_ports


@pytest.fixture
def running():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with process:
        yield process
        process.kill()


def test_a_lagwatch_that_does_not_answer_is_asked_again(running) -> None:
    nobody = f"http://127.0.0.1:{free_ports(1)[0]}"

    lines = _watch(Console(quiet=True), running, nobody, 0.1, [])

    assert [line.role for line in lines] == list(DEMO_GROUPS)
    assert not any(line.status for line in lines)


def test_a_lagwatch_that_has_ended_ends_the_demo(running) -> None:
    running.kill()
    running.wait()

    with pytest.raises(DemoError, match="lagwatch has ended: see"):
        _watch(Console(quiet=True), running, "http://127.0.0.1:1", 60, [])
