"""The manual's commands for a Spark whose workers have nothing but Python.

The commands are those of `docs/jobs.md`, word for word but for the master's address. Only the
environment is made in another way than by `pip install`: of the packages that are installed here.
"""

import os
import re
import shutil
import subprocess
import venv
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from tests.spark.test_cluster import ROOT, SMALL, executors, expected, recorded, rolled
from tests.support.spark_cluster import SPARK_HOME, environment, standalone

__all__ = ["expected"]  # a fixture
_DEADLINE_S: Final = 240
_MASTER: Final = "spark://master:7077"
_NOT_ON_WORKERS: Final = frozenset({"pyspark", "py4j", "lagwatch"})
"""Spark's own Python comes with the worker; lagwatch's code is sent by the driver."""


def documented(title: str, language: str) -> list[str]:
    """The blocks of a chapter of the manual."""
    text = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")
    chapter = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", chapter, re.DOTALL)


def command(begin: str) -> str:
    """The one command of the chapter that begins so."""
    text = "\n".join(documented("On a cluster", "sh")).replace("\\\n", " ")
    [found] = [line for line in text.splitlines() if line.startswith(begin)]
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `environment`, as the manual makes it, and its archive."""
    place = tmp_path_factory.mktemp("submit")
    made = place / "environment"
    venv.create(made, with_pip=False, symlinks=True)
    packages = next((made / "lib").glob("python3*")) / "site-packages"
    for name in needed("lagwatch"):
        copy_package(name, packages)
    assert run(command("tar "), place).returncode == 0
    # what the workers have no use for is not copied
    (packages / "rest.pth").write_text(f"{ROOT}\n{SPARK_HOME.parent}\n")
    lagwatch = made / "bin" / "lagwatch"
    lagwatch.write_text('#!/bin/sh\nexec "$(dirname "$0")/python" -m lagwatch "$@"\n')
    lagwatch.chmod(0o755)
    (made / "bin" / "spark-submit").symlink_to(SPARK_HOME / "bin" / "spark-submit")
    (place / "deploy").symlink_to(ROOT / "deploy")
    return place


def needed(name: str, extras: frozenset[str] = frozenset({"spark", "elastic"})) -> set[str]:
    """Names of all that `pip install` would bring, but what the workers have already."""
    found: set[str] = set()
    for text in distribution(name).requires or ():
        wanted = Requirement(text)
        marker = wanted.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            continue
        if wanted.name in _NOT_ON_WORKERS:
            continue
        found |= {wanted.name} | needed(wanted.name, frozenset(wanted.extras))
    return found


def copy_package(name: str, to: Path) -> None:
    """The files of a distribution."""
    installed = distribution(name)
    for file in installed.files or ():
        if ".." in file.parts or file.suffix == ".pyc" or "tests" in file.parts:
            continue
        target = to / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(installed.locate_file(file)), target)


def bare() -> dict[str, str]:
    """An environment in which no variable names an interpreter with packages."""
    kept = {name: value for name, value in environment().items() if name != "PYSPARK_PYTHON"}
    kept["PATH"] = os.pathsep.join(
        part for part in kept["PATH"].split(os.pathsep) if ".venv" not in part
    )
    return kept


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A master and a worker that know no other Python than the system's."""
    folder = tmp_path_factory.mktemp("bare")
    with standalone(folder, workers=1, environment=bare()) as url:
        yield url, folder


def run(text: str, place: Path) -> "subprocess.CompletedProcess[str]":
    """A command of the manual in a shell in which the environment is active."""
    done = subprocess.run(
        ["/bin/sh", "-ec", f"{command('. ')}\n{text}"],
        cwd=place,
        env=bare(),
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )
    print(text, done.stdout, done.stderr)  # noqa: T201 shown when the test fails
    return done


def configured(place: Path, store: Path, further: str = "") -> None:
    history = f'\n[history]\nurl = "{store}"\n'
    text = SMALL.replace("[jobs.spark]\n", f"[jobs.spark]\n{further}")
    (place / "lagwatch.toml").write_text(text + history, encoding="utf-8")


@pytest.mark.timeout(600)
def test_spark_submit_as_documented_needs_nothing_on_the_workers(
    place: Path, cluster: tuple[str, Path], expected: list[tuple[object, ...]]
) -> None:
    url, logs = cluster
    store = recorded(place / "submitted")
    configured(place, store)
    submit = command("spark-submit ").replace(_MASTER, url)
    here = "--conf spark.driver.host=127.0.0.1 --executor-memory 512m --py-files"

    assert run(command("lagwatch jobs package "), place).returncode == 0
    done = run(submit.replace("--py-files", here), place)

    assert done.returncode == 0
    assert rolled(store) == expected
    assert all((path.parent / "environment").is_dir() for path in executors(logs))


@pytest.mark.thorough  # spark-submit has the same workers
def test_lagwatch_as_documented_needs_nothing_on_the_workers(
    place: Path, cluster: tuple[str, Path], expected: list[tuple[object, ...]]
) -> None:
    url, _ = cluster
    store = recorded(place / "local")
    [options] = documented("On a cluster", "toml")
    configured(place, store, options.removeprefix("[jobs.spark]\n"))

    done = run(command("lagwatch rollup ").replace(_MASTER, url), place)

    assert done.returncode == 0
    assert rolled(store) == expected
