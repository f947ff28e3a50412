"""The repository is the same on every machine: it names no machine's paths and no registry."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# In pieces, so that this file does not contain what it looks for.
REGISTRY_HOSTS = (
    "pypi" + ".org", "pythonhosted" + ".org", "repo1.maven" + ".org", "maven.apache" + ".org",
    "npmjs" + ".org", "golang" + ".org",
)  # fmt: skip
MACHINE_PATHS = ("/" + "root/", "/" + "work/", ".." + "/shared", "/" + "Users/")
FORBIDDEN = re.compile(
    "|".join(
        [*(re.escape(host) for host in REGISTRY_HOSTS)]
        + [rf"(?<![\w.]){re.escape(path)}" for path in MACHINE_PATHS]
    )
)


def tracked_files() -> list[Path]:
    """Return what is in the repository or about to be: ignored files are not."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [file for file in files if file.is_file()]


def mentions(text: str) -> list[str]:
    return [
        f"line {number}: {match[0]}"
        for number, line in enumerate(text.splitlines(), start=1)
        for match in FORBIDDEN.finditer(line)
    ]


def test_no_file_names_a_registry_or_a_path_of_some_machine() -> None:
    found = {
        file.relative_to(ROOT).as_posix(): lines
        for file in tracked_files()
        if (lines := mentions(file.read_text(encoding="utf-8", errors="replace")))
    }

    assert found == {}


@pytest.mark.parametrize(
    "text", [f"see https://{REGISTRY_HOSTS[0]}/simple", f"cd {MACHINE_PATHS[1]}main"]
)
def test_the_search_finds_what_it_is_there_to_find(text: str) -> None:
    assert mentions(text) != []


def test_every_locked_requirement_carries_a_hash() -> None:
    for lock in ROOT.glob("requirements*.lock"):
        requirements = re.findall(r"^\S+==.*$", lock.read_text(encoding="utf-8"), re.MULTILINE)

        unhashed = [line for line in requirements if not line.endswith("\\")]

        assert requirements
        assert unhashed == []
