"""lagwatch as one zip, for Spark's `--py-files` and for executors that do not have it."""

import zipfile
from pathlib import Path
from typing import Final

import lagwatch

SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Environment variable that spark-submit sets for the program it runs."""
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The oldest time that a zip can hold; with a fixed time equal sources make equal files."""
_LEFT_OUT: Final = frozenset({".pyc", ".pyo"})


def write_package(path: Path) -> Path:
    """Write the package with all its files, ready to be imported from the zip; returns the path."""
    root = Path(lagwatch.__file__).parent
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        for file in sorted(root.rglob("*")):
            if file.is_file() and file.suffix not in _LEFT_OUT:
                name = file.relative_to(root.parent).as_posix()
                package.writestr(zipfile.ZipInfo(name, _EPOCH), file.read_bytes())
    return path
