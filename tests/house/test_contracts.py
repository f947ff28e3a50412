"""Every import contract is broken by an import that it forbids."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
_PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())
_CONTRACTS: Final = _PROJECT["tool"]["importlinter"]["contracts"]
CONTRACTS: Final = [contract["name"] for contract in _CONTRACTS]
FORBIDDEN: Final = {
    "lagwatch is layered; adapters never import each other": {
        "lagwatch/history/top.py": "import lagwatch.notify.mutes",
    },
    "the core is layered too": {"lagwatch/core/model.py": "import lagwatch.core.rules"},
    "the core does no I/O and reads no clock": {"lagwatch/core/rows.py": "import time"},
    "the HTTP layer sees core, ports and errors only": {
        "api/lagwatch_api/ops.py": "import lagwatch.history.top",
    },
    "only the command line imports the HTTP layer": {
        "lagwatch/service.py": "import lagwatch_api.app",
    },
    "only lagwatch.kafka and the demo know the Kafka client library": {
        "lagwatch/metrics/metric.py": "import confluent_kafka",
    },
    "the demo and its broker are optional: nothing else needs them": {
        "lagwatch/jobs/session.py": "import lagwatch.kafka.embedded.jars",
    },
    "the serving process never loads the Kafka client library": {
        "lagwatch/service.py": "import lagwatch.kafka.client",
    },
    "only lagwatch.jobs knows Spark, and the service never loads it": {
        "lagwatch/service.py": "import lagwatch.jobs.session",
    },
    "no cycles between siblings": {
        "lagwatch/monitor/skew.py": "import lagwatch.monitor.cluster",
    },
}


CLIENT_FREE: Final = {
    "lagwatch.service": "lagwatch/service.py",
    "lagwatch.history.top": "lagwatch/history/top.py",
    "lagwatch.metrics.metric": "lagwatch/metrics/metric.py",
    "lagwatch.monitor.skew": "lagwatch/monitor/skew.py",
    "lagwatch_api.ops": "api/lagwatch_api/ops.py",
}
"""A module of each package that must not load the Kafka client library."""


def verdicts(tree: Path) -> dict[str, str]:
    """KEPT or BROKEN for every contract."""
    lines = re.findall(r"^(.+) (KEPT|BROKEN)$", printed(tree), re.MULTILINE)
    return {name.strip(): verdict for name, verdict in lines}


def printed(tree: Path) -> str:
    """What the program itself says of a tree."""
    program = Path(sys.executable).with_name("lint-imports")
    found = subprocess.run(
        [program, "--no-cache", "--no-logo"],
        cwd=tree,
        env={"PYTHONPATH": f"{tree}:{tree / 'api'}", "COLUMNS": "300"},
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout


@contextmanager
def added(tree: Path, lines: Mapping[str, str]) -> Iterator[None]:
    """Files of the tree end with these lines while the block runs."""
    before = {name: (tree / name).read_text() for name in lines}
    for name, line in lines.items():
        (tree / name).write_text(f"{before[name]}\n{line}\n")
    try:
        yield
    finally:
        for name, text in before.items():
            (tree / name).write_text(text)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("contracts")
    for name in ("lagwatch", "api"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    return tree


def test_every_contract_has_an_import_that_it_forbids() -> None:
    assert list(FORBIDDEN) == CONTRACTS


def test_every_package_is_held_to_have_no_kafka_client_but_two() -> None:
    name = "only lagwatch.kafka and the demo know the Kafka client library"
    (contract,) = (each for each in _CONTRACTS if each["name"] == name)
    packages = {
        f"lagwatch.{path.stem}"
        for path in (ROOT / "lagwatch").iterdir()
        if (path / "__init__.py").exists() or (path.suffix == ".py" and path.stem[0] != "_")
    }

    left_out = packages - set(contract["source_modules"])

    assert left_out == {"lagwatch.kafka", "lagwatch.demo"}


def test_the_project_keeps_them(copy: Path) -> None:
    assert verdicts(copy) == dict.fromkeys(CONTRACTS, "KEPT")


@pytest.mark.parametrize("contract", FORBIDDEN)
def test_an_import_that_it_forbids_breaks_it(copy: Path, contract: str) -> None:
    with added(copy, FORBIDDEN[contract]):
        assert verdicts(copy)[contract] == "BROKEN"


def test_the_kafka_client_is_found_in_every_package_that_must_not_load_it(copy: Path) -> None:
    with added(copy, dict.fromkeys(CLIENT_FREE.values(), "import confluent_kafka")):
        said = printed(copy)

    for module in CLIENT_FREE:
        assert re.search(rf"^-?\s*{re.escape(module)} -> confluent_kafka\b", said, re.MULTILINE), (
            said
        )
