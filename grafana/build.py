"""Writes the dashboards: `python -m grafana.build`; with `--check` it only compares."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana.boards import fleet, group, history, itself, topic

FOLDER: Final = Path(__file__).parent / "dashboards"
_BOARDS: Final = (fleet, group, topic, itself, history)


def rendered() -> Mapping[str, str]:
    """File name → the dashboard as JSON."""
    built = (module.dashboard().build() for module in _BOARDS)
    encoder = JSONEncoder(sort_keys=True, indent=2)
    return {f"{board.uid}.json": encoder.encode(board) + "\n" for board in built}


def outdated() -> list[str]:
    """Names of files that are not what they should be, or should not be there."""
    files = rendered()
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    return sorted(
        name for name in files.keys() | there.keys() if files.get(name) != there.get(name)
    )


def main(arguments: list[str]) -> int:
    """Write the files; or, with `--check`, name those that differ and return 1."""
    if "--check" in arguments:
        names = outdated()
        sys.stdout.writelines(f"{name} is out of date\n" for name in names)
        return 1 if names else 0
    FOLDER.mkdir(exist_ok=True)
    for name, text in rendered().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
