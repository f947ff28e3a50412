"""Temporary folders of runs: deleted at the end, or by the next run after a kill."""

import subprocess
import sys
from pathlib import Path

from lagwatch.jobs.temp_folder import temp_folder

_HOLDS = """
import sys
from pathlib import Path
from lagwatch.jobs.temp_folder import temp_folder
with temp_folder(Path(sys.argv[1])) as folder:
    (folder / "package.zip").write_bytes(b"x")
    print(folder, flush=True)
    sys.stdin.read()
"""


def holder(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    """A run that has its folder, and waits."""
    run = subprocess.Popen(
        [sys.executable, "-c", _HOLDS, str(parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    return run, Path(run.stdout.readline().strip())


def test_the_folder_of_a_run_is_deleted_at_its_end(tmp_path: Path) -> None:
    with temp_folder(tmp_path) as folder:
        (folder / "package.zip").write_bytes(b"x")

    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_run_is_deleted_by_the_next_and_that_of_a_live_one_stays(
    tmp_path: Path,
) -> None:
    killed, left = holder(tmp_path)
    alive, in_use = holder(tmp_path)
    killed.kill()
    killed.communicate()

    with temp_folder(tmp_path) as folder:
        found = set(tmp_path.iterdir())

    alive.communicate("")
    assert left.name.startswith("lagwatch-jobs-")
    assert found == {folder, in_use}
    assert list(tmp_path.iterdir()) == []


def test_empty_folders_of_earlier_releases_are_deleted_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "lagwatch-jobs-empty").mkdir()
    foreign = tmp_path / "lagwatch-jobs-filled"
    foreign.mkdir()
    (foreign / "lagwatch-jobs.zip").write_bytes(b"x")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").touch()
    link = tmp_path / "lagwatch-jobs-link"
    link.symlink_to(elsewhere)

    with temp_folder(tmp_path):
        pass

    assert set(tmp_path.iterdir()) == {foreign, elsewhere, link}
