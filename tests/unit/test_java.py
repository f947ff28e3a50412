"""Finding a Java that is new enough."""

from pathlib import Path

import pytest

from lagwatch.errors import MissingPartError
from lagwatch.java import find_java, java_version


def java(directory: Path, banner: str) -> Path:
    """Write a program that introduces itself as a Java does, on standard error."""
    program = directory / "java"
    directory.mkdir()
    program.write_text(f"#!/bin/sh\necho '{banner}' >&2\n", encoding="ascii")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25.0.2" 2026-01-20', 25),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "22-ea" 2024-03-19', 22),
        ("zsh: no such thing", None),
    ],
)
def test_the_major_version_is_read_from_the_banner(
    tmp_path: Path, banner: str, version: int | None
) -> None:
    assert java_version(java(tmp_path / "bin", banner)) == version


def test_an_old_java_is_passed_over(tmp_path: Path) -> None:
    old = java(tmp_path / "old", 'openjdk version "11.0.2" 2019-01-15')
    fit = java(tmp_path / "fit", 'openjdk version "21.0.1" 2023-10-17')

    assert find_java(17, server="server", candidates=[tmp_path / "absent", old, fit]) == fit


def test_without_a_fit_java_the_error_names_what_was_found_and_a_remedy(tmp_path: Path) -> None:
    old = java(tmp_path / "old", 'java version "1.8.0_402"')

    with pytest.raises(MissingPartError) as raised:
        find_java(17, server="server", candidates=[old])

    assert f"{old} (Java 8)" in str(raised.value)
    assert "pip install 'lagwatch[jre]'" in str(raised.value)
