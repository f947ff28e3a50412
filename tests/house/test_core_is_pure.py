"""What import contracts cannot show: the core calls neither the clock nor files."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = sorted((ROOT / "lagwatch" / "core").rglob("*.py"))

FORBIDDEN_CALLS = {
    "breakpoint", "exec", "eval", "input", "open", "print",
    "now", "utcnow", "today", "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter",
    "read_text", "read_bytes", "write_text", "write_bytes", "fromfile", "tofile", "memmap",
    "getenv", "system",
}  # fmt: skip
RANDOM = {"random", "default_rng"}


def called_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the last part of every called name, `c` of `a.b.c()`, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    yield name, node.lineno


@pytest.mark.parametrize("module", CORE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_core_calls_neither_the_clock_nor_files_nor_chance(module: Path) -> None:
    calls = called_names(ast.parse(module.read_text(encoding="utf-8")))

    impure = [f"line {line}: {name}()" for name, line in calls if name in FORBIDDEN_CALLS | RANDOM]

    assert impure == []


def test_the_search_finds_what_it_is_there_to_find() -> None:
    source = "datetime.datetime.now()\nopen('x')\nPath('x').read_text()\nnp.zeros(3)"

    found = {name for name, _ in called_names(ast.parse(source))} & FORBIDDEN_CALLS

    assert found == {"now", "open", "read_text"}


CORE_TESTS = sorted((ROOT / "tests" / "unit" / "core").glob("test_*.py"))


def imported(tree: ast.AST) -> Iterator[str]:
    """Modules that are imported anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


@pytest.mark.parametrize("module", CORE_TESTS, ids=lambda path: path.name)
def test_tests_of_the_core_import_no_other_part_of_lagwatch(module: Path) -> None:
    names = imported(ast.parse(module.read_text(encoding="utf-8")))

    others = [
        name
        for name in names
        if name.split(".")[0].startswith("lagwatch") and not name.startswith("lagwatch.core")
    ]

    assert others == []
