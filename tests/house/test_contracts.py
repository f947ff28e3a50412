"""Every import contract is broken by an import that it forbids."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
CONTRACTS: Final = [
    contract["name"]
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
]
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
        "lagwatch/metrics/text.py": "import confluent_kafka",
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


def verdicts(tree: Path) -> dict[str, str]:
    """KEPT or BROKEN for every contract, by the program itself."""
    program = Path(sys.executable).with_name("lint-imports")
    found = subprocess.run(
        [program, "--no-cache", "--no-logo"],
        cwd=tree,
        env={"PYTHONPATH": f"{tree}:{tree / 'api'}", "COLUMNS": "300"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = re.findall(r"^(.+) (KEPT|BROKEN)$", found.stdout, re.MULTILINE)
    return {name.strip(): verdict for name, verdict in lines}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("contracts")
    for name in ("lagwatch", "api"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    return tree


def test_every_contract_has_an_import_that_it_forbids() -> None:
    assert list(FORBIDDEN) == CONTRACTS


def test_the_project_keeps_them(copy: Path) -> None:
    assert verdicts(copy) == dict.fromkeys(CONTRACTS, "KEPT")


@pytest.mark.parametrize("contract", FORBIDDEN)
def test_an_import_that_it_forbids_breaks_it(copy: Path, contract: str) -> None:
    before = {}
    for name, line in FORBIDDEN[contract].items():
        before[name] = (copy / name).read_text()
        (copy / name).write_text(f"{before[name]}\n{line}\n")

    try:
        assert verdicts(copy)[contract] == "BROKEN"
    finally:
        for name, text in before.items():
            (copy / name).write_text(text)
