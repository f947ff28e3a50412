"""Bill of materials in CycloneDX: what an installation of lagwatch consists of.

`python deploy/sbom.py` writes it to standard output, from `requirements.lock`, which names each
package with its version, its hashes and who needs it.
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
_SPEC_VERSION: Final = "1.6"
_PACKAGE: Final = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^ \\;]+)", re.MULTILINE)
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_OURS: Final = re.compile(r"lagwatch \(pyproject\.toml(?::([a-z]+))?\)")
_DEV: Final = "dev"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One package of the lock file."""

    name: str
    version: str
    hashes: tuple[str, ...]
    needed_by: frozenset[str]
    """Packages that need it."""
    groups: frozenset[str]
    """Groups of lagwatch's own requirements that name it: "" always, extras, `dev`."""

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


def packages(lock: str) -> Iterator[Package]:
    """The packages of a lock file, in its order."""
    for block in re.split(r"\n(?=[A-Za-z0-9])", lock):
        found = _PACKAGE.match(block)
        if found is None:
            continue
        said = re.findall(r"^\s+#\s+(?:via )?(\S.*)$", block, re.MULTILINE)
        needed_by = [name for name in said if name != "via"]
        ours = [match for name in needed_by if (match := _OURS.fullmatch(name))]
        yield Package(
            name=found[1].lower(),
            version=found[2],
            hashes=tuple(_HASH.findall(block)),
            needed_by=frozenset(name.lower() for name in needed_by if not _OURS.fullmatch(name)),
            groups=frozenset(match[1] or "" for match in ours),
        )


def scopes(every: Iterable[Package]) -> Mapping[str, str]:
    """By package: `required` by every installation, `optional` for an extra, or `excluded`."""
    known = {package.name: package for package in every}
    found: dict[str, str] = {}
    for scope, wanted in (
        ("required", {""}),
        ("optional", {group for each in known.values() for group in each.groups} - {"", _DEV}),
    ):
        left = [name for name, package in known.items() if package.groups & wanted]
        while left:
            name = left.pop()
            if name in found:
                continue
            found[name] = scope
            left += [each.name for each in known.values() if name in each.needed_by]
    return {name: found.get(name, "excluded") for name in known}


def bill(lock: str, project: Mapping[str, Any]) -> dict[str, Any]:
    """The document; packages that are for development only are left out."""
    every = list(packages(lock))
    scope = scopes(every)
    kept = [package for package in every if scope[package.name] != "excluded"]
    ours = {
        "type": "application",
        "bom-ref": "lagwatch",
        "name": project["name"],
        "version": project["version"],
        "purl": f"pkg:pypi/{project['name']}@{project['version']}",
        "licenses": [{"license": {"id": project["license"]}}],
    }
    needs = {"lagwatch": [package.purl for package in kept if package.groups - {_DEV}]}
    for package in kept:
        needs[package.purl] = [each.purl for each in kept if package.name in each.needed_by]
    return {
        "$schema": f"http://cyclonedx.org/schema/bom-{_SPEC_VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": _SPEC_VERSION,
        "version": 1,
        "metadata": {"component": ours},
        "components": [
            {
                "type": "library",
                "bom-ref": package.purl,
                "name": package.name,
                "version": package.version,
                "purl": package.purl,
                "scope": scope[package.name],
                # of every file that is published of it: a wheel for each system, and its source
                "externalReferences": [
                    {
                        "type": "distribution",
                        "url": package.purl,
                        "hashes": [{"alg": "SHA-256", "content": each} for each in package.hashes],
                    }
                ],
            }
            for package in kept
        ],
        "dependencies": [{"ref": ref, "dependsOn": sorted(each)} for ref, each in needs.items()],
    }


def main() -> None:
    """Write the bill of this checkout."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    json.dump(bill((ROOT / "requirements.lock").read_text("utf-8"), project), sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
