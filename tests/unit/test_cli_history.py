"""`lagwatch history`: what it shows, what it copies, how it ends."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lagwatch.cli import app
from lagwatch.history.parquet import ParquetStore
from tests.support.history import (
    NOON_MS,
    group_sample,
    group_samples,
    held,
    sample,
    samples,
)

pytestmark = pytest.mark.slow  # writes real stores


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["history", *arguments], env={"COLUMNS": "200"})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of three samples and a gap."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "store"
    rows = [group_sample(at_ms=NOON_MS + second * 1000) for second in (0, 30, 120)]
    store = ParquetStore(str(folder))
    store.write([samples([sample(partition=each) for each in range(3)])], batch="b1")
    store.write([group_samples(rows)], batch="b2")
    return folder


def test_verify_prints_records_duplicates_gaps_and_torn_files(folder: Path) -> None:
    found = run("verify", str(folder))

    assert found.exit_code == 0
    assert "samples: 3 records" in found.stdout
    assert "duplicates: 0" in found.stdout
    assert "here: 2026-11-21T12:00:30Z to 2026-11-21T12:02:00Z (1 min 30 s)" in found.stdout
    assert "torn files: 0" in found.stdout


def test_verify_ends_with_1_when_a_file_is_torn(folder: Path) -> None:
    [file] = (folder / "samples").rglob("*.parquet")
    file.write_bytes(file.read_bytes()[:-5])

    found = run("verify", str(folder), "--json")

    assert found.exit_code == 1
    answer = json.loads(found.stdout)
    assert answer["sound"] is False
    assert file.name in answer["torn"][0]


def test_what_two_instances_recorded_is_sound_and_compact_makes_one_of_it(folder: Path) -> None:
    ParquetStore(str(folder)).write([samples([sample()])], batch="b3")

    before = run("verify", str(folder))
    mended = run("compact", str(folder))
    after = run("verify", str(folder))

    assert (before.exit_code, mended.exit_code, after.exit_code) == (0, 0, 0)
    assert "duplicates: 1 in several files, as two instances" in before.stdout
    assert "duplicates: 0" in after.stdout


@pytest.mark.parametrize("command", ["verify", "stats", "compact"])
def test_a_folder_that_is_not_there_is_no_empty_store(tmp_path: Path, command: str) -> None:
    found = run(command, str(tmp_path / "nope"))

    assert found.exit_code == 2
    assert "nope" in found.output


def test_stats_show_rows_and_times(folder: Path) -> None:
    table = run("stats", str(folder)).stdout
    answer = json.loads(run("stats", str(folder), "--json").stdout)

    assert "group_samples" in table
    assert "2026-11-21T12:02:00Z" in table
    assert [(row["kind"], row["rows"]) for row in answer] == [
        ("samples", 3),
        ("group_samples", 3),
    ]


def test_export_copies_what_is_chosen(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"

    found = run(
        *("export", str(target), "--store", str(folder), "--kind", "samples"),
        *("--since", "2026-11-21", "--until", "2026-11-22"),
    )

    assert found.exit_code == 0, found.output
    assert "3 rows copied" in found.stdout
    assert held(ParquetStore(str(target))) == held(ParquetStore(str(folder)))


@pytest.mark.parametrize("command", ["export", "import"])
def test_a_store_is_not_copied_into_itself(folder: Path, command: str) -> None:
    found = run(command, f"{folder}/../{folder.name}", "--store", str(folder))

    assert found.exit_code == 2
    assert "is the store that is copied from" in " ".join(found.output.replace("│", " ").split())
    assert len(held(ParquetStore(str(folder)))) == 3


def test_import_copies_into_the_store(folder: Path, tmp_path: Path) -> None:
    found = run("import", str(folder), "--store", str(tmp_path / "mine"))

    assert found.exit_code == 0, found.output
    assert len(held(ParquetStore(str(tmp_path / "mine")))) == 3


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(("--kind", "sample"), "rollup_5m"), (("--since", "yesterday"), "yesterday")],
)
def test_a_choice_that_is_none_is_refused(folder: Path, arguments, word: str) -> None:
    found = run("export", "x", "--store", str(folder), *arguments)

    assert found.exit_code == 2
    assert word in found.output


@pytest.mark.parametrize("command", ["export", "import", "stats", "verify", "compact"])
def test_every_command_shows_examples(command: str) -> None:
    text = run(command, "--help").stdout

    assert f"lagwatch history {command}" in text
