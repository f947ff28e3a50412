"""Tests set what an object takes as a setting; they never replace a constant of a module."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def patches(tree: ast.AST) -> Iterator[int]:
    """Lines that replace a constant or private name of a module, or that use `unittest.mock`."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="setattr" | "delattr"), args=args):
                texts = [
                    text.value.rpartition(".")[2]
                    for text in args[:2]
                    if isinstance(text, ast.Constant) and isinstance(text.value, str)
                ]
                if any(name.isupper() or name.startswith("_") for name in texts):
                    yield node.lineno
            case ast.Assign(targets=targets):
                if any(isinstance(to, ast.Attribute) and to.attr.isupper() for to in targets):
                    yield node.lineno
            case (
                ast.ImportFrom(module="unittest.mock")
                | ast.ImportFrom(module="unittest", names=[ast.alias(name="mock")])
            ):
                yield node.lineno


@pytest.mark.parametrize(
    "code",
    [
        'monkeypatch.setattr(plan, "_ROWS", 1)',
        'monkeypatch.setattr("lagwatch.jobs.rollup.plan.TASK_ROWS", 1)',
        "plan.TASK_ROWS = 1",
        "from unittest.mock import patch",
    ],
)
def test_a_patch_is_found(code) -> None:
    assert list(patches(ast.parse(code))) == [1]


def test_no_test_patches_a_constant() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        for line in patches(ast.parse(path.read_text(encoding="utf-8")))
    ]

    assert found == []
