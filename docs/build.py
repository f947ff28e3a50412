"""Writes the generated parts of the manual: `python -m docs.build`; `--check` only compares.

A generated part is between `<!-- generated: NAME -->` and `<!-- end -->`, where NAME is a function
of `docs.parts`. Blocks of the language `console` show commands (`$ ...`) and what they print, which
`docs.consoles` runs.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from docs import consoles, parts

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_PART: Final = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->\n)", re.DOTALL)
_CONSOLE: Final = re.compile(r"(?<=^```console\n)(.*?)(?=^```$)", re.DOTALL | re.MULTILINE)


def rendered(text: str) -> str:
    """A page with its generated parts as they must be."""
    text = _PART.sub(lambda found: f"{found[1]}{parts.PARTS[found[2]]()}\n{found[3]}", text)
    return _CONSOLE.sub(lambda found: consoles.shown(found[1]), text)


def pages() -> Mapping[Path, str]:
    """Every page as it must be."""
    return {path: rendered(path.read_text(encoding="utf-8")) for path in PAGES}


def outdated() -> list[str]:
    """Names of the pages that are not what they must be."""
    return [
        path.relative_to(ROOT).as_posix()
        for path, text in pages().items()
        if path.read_text(encoding="utf-8") != text
    ]


def main(arguments: list[str]) -> int:
    """Write the pages; or, with `--check`, name those that differ and return 1."""
    if "--check" in arguments:
        names = outdated()
        sys.stdout.writelines(f"{name} is out of date: run `make docs`\n" for name in names)
        return 1 if names else 0
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
