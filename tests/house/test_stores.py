"""A store is one driver with two sides: nothing else asks which store it has before it."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from lagwatch.history.drivers.registry import DRIVERS

_SOURCES = Path(__file__).parents[2] / "lagwatch"
_OWN = {
    "parquet": ("history/drivers", "history/parquet", "jobs/stores/parquet"),
    "elasticsearch": (
        "history/drivers",
        "history/elastic",
        "jobs/stores/elasticsearch",
        "jobs/sources/elastic.py",
    ),
}
"""Where the name of a store, or of its class, may stand."""
_ALSO = {
    # the other ends of `lagwatch backfill --from` and the options that need checks are no stores
    "jobs/backfill/request.py",
    "cli/backfill.py",
    "config",
    "history/folder.py",
    "history/compact.py",
    "history/verify.py",
    "jobs/sources/registry.py",
}


def test_every_driver_has_both_sides() -> None:
    assert set(DRIVERS) == set(_OWN)
    for name in DRIVERS:
        assert callable(import_module(f"lagwatch.jobs.stores.{name}").JOBS)


@pytest.mark.parametrize("store", sorted(_OWN))
def test_only_a_driver_names_its_store(store: str) -> None:
    classes = "|".join(_classes(store))
    names = re.compile(rf"[\"']{store}[\"']|\b({classes})\b|isinstance\([^)]*[Ss]tore\b")

    naming = {
        str(path.relative_to(_SOURCES))
        for path in _SOURCES.rglob("*.py")
        if names.search(path.read_text(encoding="utf-8"))
    }

    allowed = (*(place for own in _OWN.values() for place in own), *_ALSO)
    assert {path for path in naming if not path.startswith(allowed)} == set()


def test_every_store_has_a_class() -> None:
    assert {store: _classes(store) for store in DRIVERS if not _classes(store)} == {}
    assert _classes("parquet") == ["ParquetStore"]


def _classes(store: str) -> list[str]:
    """Names of the classes of a store: they end in `Store` and are in files of its own."""
    text = "".join(
        path.read_text(encoding="utf-8")
        for path in sorted(_SOURCES.rglob("*.py"))
        if str(path.relative_to(_SOURCES)).startswith(_OWN[store])
    )
    return re.findall(r"^class (\w+Store)\b", text, re.MULTILINE)
