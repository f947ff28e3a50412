"""The command itself: its help, its configuration commands, and how it ends."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lagwatch import __version__
from lagwatch.cli import app
from lagwatch.config.reference import markdown
from lagwatch.config.secret import HIDDEN

pytestmark = pytest.mark.slow  # starts processes

COMMANDS = ("serve", "status", "explain", "replay", "demo", "config")
_DEADLINE_S = 60


def run(*arguments: str, environ: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, [*arguments], env=environ or {})


def process(*arguments: str, **options) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "lagwatch", *arguments],
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
        **options,
    )


def test_an_installation_without_the_demo_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lagwatch.kafka.embedded", None)
    for name in [name for name in sys.modules if name.startswith("lagwatch.demo")]:
        monkeypatch.delitem(sys.modules, name)

    ended = run("demo")

    assert ended.exit_code == 2
    assert "without the demo" in ended.output
    assert "lagwatch[embedded]" in ended.output


class TestHelp:
    def test_it_names_every_command(self) -> None:
        text = run("--help").stdout

        assert all(command in text for command in COMMANDS)

    @pytest.mark.parametrize("command", ["serve", "status", "explain", "replay", "demo"])
    def test_every_command_shows_examples(self, command: str) -> None:
        text = run(command, "--help").stdout

        assert "Examples" in text
        assert f"lagwatch {command}" in text

    def test_without_arguments_help_is_shown(self) -> None:
        assert "Usage" in run().output

    def test_the_version_is_shown(self) -> None:
        assert run("--version").stdout == f"lagwatch {__version__}\n"

    def test_completion_can_be_had(self) -> None:
        # asked for as a shell does it: none need be found among the processes above us
        text = process(env={**os.environ, "_LAGWATCH_COMPLETE": "source_bash"}).stdout

        assert "_lagwatch_completion" in text

    def test_help_and_version_load_nothing_heavy(self) -> None:
        program = (
            "import sys; from lagwatch.cli import app; "
            "heavy = {'numpy', 'pydantic', 'fastapi', 'uvicorn', 'confluent_kafka', 'rich.table'}; "
            "print(sorted(heavy & set(sys.modules)))"
        )

        result = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=_DEADLINE_S,
            check=True,
        )

        assert result.stdout == "[]\n"


class TestConfig:
    def test_a_good_configuration_is_reported_with_its_clusters(self) -> None:
        result = run("config", "check", "--bootstrap", "a:1", "--cluster-name", "prod")

        assert (result.exit_code, result.stdout) == (0, "ok: 1 cluster: prod\n")

    def test_every_fault_is_listed_on_stderr(self, tmp_path: Path) -> None:
        path = tmp_path / "bad.toml"
        path.write_text('[log]\nlevel = "loud"\n[windows]\nintervals = 1\n')

        result = run("config", "check", "-c", str(path))

        assert result.exit_code == 2
        assert result.stdout == ""
        lines = result.stderr.splitlines()
        assert lines[0] == "lagwatch: 3 faults in the configuration:"
        assert [line.split()[0].rstrip(":") for line in lines[1:]] == [
            "log.level",
            "windows.intervals",
            "clusters",
        ]

    def test_the_file_can_be_named_by_a_variable(self, tmp_path: Path) -> None:
        path = tmp_path / "lagwatch.toml"
        path.write_text('[clusters.dev]\nbootstrap = "a:1"\n')

        result = run("config", "check", environ={"LAGWATCH_CONFIG": str(path)})

        assert result.stdout == "ok: 1 cluster: dev\n"

    def test_what_is_in_force_is_shown_with_secrets_hidden(self) -> None:
        environ = {
            "LAGWATCH_CLUSTERS__LOCAL__SASL__MECHANISM": "PLAIN",
            "LAGWATCH_CLUSTERS__LOCAL__SASL__USERNAME": "u",
            "LAGWATCH_CLUSTERS__LOCAL__SASL__PASSWORD": "hunter2",
        }

        text = run("config", "show", "--bootstrap", "a:1", environ=environ)
        machine = run("config", "show", "--bootstrap", "a:1", "--json", environ=environ)

        assert "hunter2" not in text.output + machine.output
        sasl = json.loads(machine.stdout)["clusters"]["local"]["sasl"]
        assert {name: value for name, value in sasl.items() if value} == {
            "mechanism": "PLAIN",
            "username": "u",
            "password": HIDDEN,
        }

    def test_the_reference_is_a_table(self) -> None:
        assert run("config", "reference").stdout == markdown()


class TestEnd:
    def test_a_fault_of_the_configuration_ends_serving_with_2(self) -> None:
        result = run("serve", "--bootstrap", "kafka", "--address", "here")

        assert result.exit_code == 2
        assert "(from --bootstrap)" in result.stderr
        assert "(from --address)" in result.stderr
        assert "Traceback" not in result.output

    def test_a_reader_that_goes_away_is_no_error(self, tmp_path: Path) -> None:
        window = {
            "offsets": [{"offset": 1, "timestamp": 1}],
            "broker_offsets": [5],
            "current_lag": 4,
            "time_now": 9,
        }
        path = tmp_path / "windows.json"
        path.write_text(json.dumps([window] * 5_000))
        program = [sys.executable, "-m", "lagwatch", "explain", str(path), "--json"]

        with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            child.stdout.readline()
            child.stdout.close()
            child.wait(_DEADLINE_S)
            output = child.stderr.read()

        assert output == b""

    def test_an_interrupt_ends_with_130_and_no_traceback(self) -> None:
        reading, writing = os.pipe()
        program = [sys.executable, "-m", "lagwatch", "explain", "-"]
        with subprocess.Popen(
            program,
            stdin=reading,
            stderr=subprocess.PIPE,
            preexec_fn=_hear_interrupts,  # noqa: PLW1509 one thread here
        ) as child:
            os.close(reading)
            # the pipe is full: the last byte fits only when the command has begun to read
            os.write(writing, b" " * 65_536)
            os.write(writing, b" ")
            output = _interrupted(child)
        os.close(writing)

        assert child.returncode == 130
        assert b"Traceback" not in output


def _hear_interrupts() -> None:
    """A script's background processes ignore interrupts, and so would their children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _interrupted(child: "subprocess.Popen[bytes]") -> bytes:
    """Press Ctrl-C until it is heard: Python misses one between two system calls of a read."""
    for _ in range(_DEADLINE_S):
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.communicate(timeout=1)[1]
    child.kill()
    return b"Traceback: not heard"
