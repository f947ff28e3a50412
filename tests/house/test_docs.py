"""The manual is true: what can be generated is, and every block is run, compared or checked."""

import re
import shlex
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

import duckdb
import pandas as pd
import pytest
import yaml
from starlette.routing import compile_path

from docs import build, consoles, parts
from docs.board_pictures import BOARDS, NOTE
from docs.pictures import NAMES
from lagwatch.config.load import load
from lagwatch.config.reference import options
from lagwatch.history.parquet import ParquetStore
from lagwatch.metrics import table as metrics
from tests.support.dashboards import boards, panels
from tests.support.history import group_sample, group_samples, sample, samples

ROOT = Path(__file__).parents[2]
PAGES = (*build.PAGES, ROOT / "CONTRIBUTING.md")
README_LINES = 150
PICTURE_BYTES = 150_000
NOT_RUN = {
    ("docs/architecture.md", "text"): "drawings",
    ("docs/history.md", "text"): "a drawing, and names of files",
    ("docs/elasticsearch.md", "bash"): "writes to an Elasticsearch; only its syntax is checked",
}
"""Blocks that are neither run nor compared, by page and language, with the reason."""
OTHER_PROGRAMS = {
    "kafka-acls.sh": "ships with Kafka; tests/acceptance/test_rights.py grants the same rights",
    "kafka-consumer-groups.sh": "ships with Kafka",
    "spark-submit": "tests/spark/test_bare_workers.py runs it",
    "tar": "tests/spark/test_bare_workers.py runs it",
    "docker": "tests/house/test_deployment.py checks the files",
    "kubectl": "tests/house/test_deployment.py checks the files",
    "systemctl": "tests/house/test_deployment.py checks the files",
    "promtool": "tests/house/test_metrics_documented.py runs it",
    "cd": "of the shell",
    ".": "of the shell",
    "python3": "tests/spark/test_bare_workers.py makes the same environment",
}
"""Programs in blocks of commands that are not started here, and why."""


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: str
    line: int
    language: str
    text: str


@cache
def blocks() -> tuple[Block, ...]:
    return tuple(block for path in PAGES for block in _blocks(path))


def _blocks(path: Path) -> Iterator[Block]:
    text = path.read_text(encoding="utf-8")
    page = path.relative_to(ROOT).as_posix()
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield Block(page, text[: found.start()].count("\n") + 1, found[1], found[2])


def of(*languages: str) -> pytest.MarkDecorator:
    """One case for each block in one of these languages."""
    found = [block for block in blocks() if block.language in languages]
    ids = [f"{block.page}:{block.line}" for block in found]
    return pytest.mark.parametrize("block", found, ids=ids)


# pages


def test_generated_parts_and_shown_output_are_current() -> None:
    assert build.outdated() == [], "run: make docs"


def test_every_part_that_can_be_generated_is_on_a_page() -> None:
    texts = [path.read_text(encoding="utf-8") for path in build.PAGES]

    assert {name for text in texts for name in re.findall(r"<!-- generated: (\w+) -->", text)} == (
        set(parts.PARTS)
    )


def test_the_readme_is_short_and_names_every_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")

    assert len(text.splitlines()) <= README_LINES
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")}
    assert {page for page in pages if f"({page})" not in text} == set()


def test_pictures_are_small_and_shown() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    pictures = list((ROOT / "docs" / "pictures").iterdir())

    names = {*(f"{name}.png" for name in NAMES), *(f"board-{name}.svg" for name in BOARDS)}
    assert {picture.name for picture in pictures} == names, "run: make pictures"
    begins = {".png": b"\x89PNG", ".svg": b"<svg "}
    assert all(picture.read_bytes().startswith(begins[picture.suffix]) for picture in pictures)
    assert [picture.name for picture in pictures if picture.stat().st_size > PICTURE_BYTES] == []
    assert [picture.name for picture in pictures if f"pictures/{picture.name})" not in texts] == []


@pytest.mark.parametrize("name", BOARDS)
def test_the_picture_of_a_board_has_every_panel_and_is_not_passed_off_as_grafana(name: str) -> None:
    drawn = ET.parse(ROOT / "docs" / "pictures" / f"board-{name}.svg")  # noqa: S314 ours
    texts = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    titles = [panel["title"] for panel in panels(boards()[f"lagwatch-{name}"])]

    assert Counter(titles) <= Counter(texts), "run: make pictures"
    assert NOTE in texts


def test_the_architecture_names_every_package() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    names = {
        f"`lagwatch/{path.name}`"
        for path in (ROOT / "lagwatch").iterdir()
        if (path.is_dir() or path.suffix == ".py") and not path.name.startswith("__")
    }

    assert {name for name in names if name not in text} == set()


def test_manuals_are_in_docs_and_files_in_deploy() -> None:
    assert list((ROOT / "deploy").rglob("*.md")) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    text = _without_code(path.read_text(encoding="utf-8"))

    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]

    assert [link for link in links if not _leads_somewhere(path, link)] == []


def _leads_somewhere(path: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (path.parent / name).resolve() if name else path
    if not target.exists():
        return False
    return not anchor or anchor in _anchors(target.read_text(encoding="utf-8"))


def _anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", _without_code(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_files_options_and_metrics_in_the_text_exist(path: Path) -> None:
    words = set(re.findall(r"`([^`\s]+)`", _without_code(path.read_text(encoding="utf-8"))))
    keys = {option.key for option in options()} | {option.section for option in options()}
    sections = {key.split(".")[0] for key in keys}
    names = {metric.name for metric in metrics.ALL}

    folders = r"(?:lagwatch|api|deploy|grafana|docs|tests)/[\w./-]+"
    files = {word for word in words if re.fullmatch(folders, word) and "NAME" not in word}
    wanted = {word for word in words if re.fullmatch(rf"(?:{'|'.join(sections)})(?:\.\w+)+", word)}
    metric_names = {word for word in words if re.fullmatch(r"lagwatch_[a-z_]+[a-z]", word)}

    assert {name for name in files if not (ROOT / name).exists()} == set()
    assert {key for key in wanted if key not in keys} == set()
    assert metric_names - names - {"lagwatch_api"} == set()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_and_routes_in_the_text_exist(path: Path) -> None:
    spans = re.findall(r"`([^`]+)`", _without_code(path.read_text(encoding="utf-8")))

    for span in spans:
        match span.split():
            case ["lagwatch", *words]:
                _is_command(words)
            case ["make", target, *_]:
                assert target in _make_targets(), span
            case ["pip", "install", package]:
                assert _extras(package) <= _known_extras(), span
            case ["GET" | "POST" | "DELETE" as method, route]:
                assert _is_route(method, route.partition("?")[0]), span


def _is_command(words: list[str]) -> None:
    """Words of a command in a sentence: its arguments may be missing, its options must exist."""
    found = parts.root_command()
    for word in words:
        if word.startswith("-"):
            known = {name for parameter in found.params for name in parameter.opts}
            assert word in known | {"--help"}, words
        elif hasattr(found, "commands") and not word.isupper():
            found = found.commands[word]


def _is_route(method: str, path: str) -> bool:
    names = re.sub(r"\{\w+\}", "{}", path)
    known = {re.sub(r"\{\w+\}", "{}", route): on for route, on in _documented_paths().items()}
    return path == "/" or method.lower() in known.get(names, ())


def _without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


# blocks


@pytest.fixture(scope="module")
def recorded_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `lagwatch-history` with a row of each kind, as of 2026-11-21."""
    folder = tmp_path_factory.mktemp("recorded") / "lagwatch-history"
    store = ParquetStore(str(folder))
    store.write([samples([sample()]), group_samples([group_sample()])], batch="b1")
    store.close()
    return folder


def test_every_block_is_run_compared_checked_or_listed() -> None:
    checked = {"console", "sh", "toml", "json", "yaml", "sql", "python"}

    left = {(block.page, block.language) for block in blocks() if block.language not in checked}

    assert left == set(NOT_RUN)


@of("toml")
def test_a_configuration_in_the_manual_is_valid(block: Block, tmp_path: Path) -> None:
    text = block.text
    if "clusters" not in tomllib.loads(text):
        text += '\n[clusters.local]\nbootstrap = "localhost:9092"\n'
    secret = tmp_path / "file"
    secret.write_text("https://example.com/secret")
    path = tmp_path / "lagwatch.toml"
    path.write_text(re.sub(r'"/(?:etc|run)/[^"]*"', f'"{secret}"', text))

    assert load(path, {}).clusters


@of("json", "yaml")
def test_data_in_the_manual_parses(block: Block) -> None:
    assert yaml.safe_load(block.text) is not None  # JSON is YAML


@of("bash")
def test_scripts_in_the_manual_are_written_in_bash(block: Block) -> None:
    done = subprocess.run(
        ["bash", "-n"],  # noqa: S607
        input=block.text,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


@of("sql", "python")
def test_queries_in_the_manual_run_on_a_recorded_history(
    block: Block, recorded_history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recorded_history.parent)
    if block.language == "sql":
        rows = duckdb.execute(block.text).fetchall()
    else:
        rows = eval(block.text, {"pandas": pd}).to_numpy().tolist()  # noqa: S307 ours

    assert rows


@of("sh")
def test_commands_in_the_manual_can_be_given(block: Block) -> None:
    _can_be_given(block.text)


def _can_be_given(text: str) -> None:
    for words in _commands(text):
        match words:
            case ["lagwatch", *arguments]:
                _parse(arguments)
            case ["make", *rest]:
                targets = [word for word in rest if "=" not in word]
                assert set(targets) <= _make_targets(), words
            case ["pip", "install", *packages]:
                assert _extras(packages[-1]) <= _known_extras(), words
            case ["curl", *rest]:
                _known_route(rest)
            case [program, *_]:
                assert program in OTHER_PROGRAMS or program == ".venv/bin/pre-commit", words


def _commands(text: str) -> Iterator[list[str]]:
    """The words of each command; variables before it and what it is piped into are left out."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        words = words[: words.index("|")] if "|" in words else words
        while words and re.fullmatch(r"\w+=.*", words[0]):
            del words[0]
        if words:
            yield words


def _parse(arguments: list[str]) -> None:
    """Fail as the command would for an unknown command, option or value; run nothing."""
    command, name = parts.root_command(), "lagwatch"
    while hasattr(command, "commands"):
        assert arguments, f"{name} needs a command"
        name, *arguments = arguments
        command = command.commands[name]
    if "--help" in arguments:
        return
    command.make_context(name, list(arguments))


def _make_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^(\w+):.*##", text, re.MULTILINE))


def _extras(package: str) -> set[str]:
    found = re.search(r"\[(.*)\]", package)
    return set(found[1].split(",")) if found else set()


def _known_extras() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(project["optional-dependencies"])


def _known_route(arguments: list[str]) -> None:
    """The application has the route that this curl asks."""
    (url,) = (word for word in arguments if word.startswith((consoles.URL, "localhost:8000")))
    method = arguments[arguments.index("-X") + 1] if "-X" in arguments else "GET"
    path = "/" + url.split("8000/", 1)[1].partition("?")[0]

    assert any(
        method.lower() in methods and compile_path(template)[0].fullmatch(path)
        for template, methods in _documented_paths().items()
    ), (method, path)


@cache
def _documented_paths() -> dict[str, dict[str, object]]:
    return parts.documented_app().openapi()["paths"]


# how-tos


def _steps() -> list[tuple[str, str]]:
    """Step and files of each row of a how-to."""
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| Step \| File \|\n\|---\|---\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = [row.strip("| ").split(" | ") for table in tables for row in table.splitlines()]
    return [(step, files) for step, files in rows]


@pytest.mark.parametrize(("step", "files"), _steps(), ids=lambda text: text[:40])
def test_a_step_of_a_how_to_names_what_is_in_its_files(step: str, files: str) -> None:
    assert _not_found(step, files) == set()


def test_a_step_that_names_what_is_not_in_its_files_is_found() -> None:
    assert _not_found("name it", "`Rule` in `lagwatch/core/model.py`") == set()
    assert _not_found("name it", "`NoSuchRule` in `lagwatch/core/model.py`") == {"NoSuchRule"}


def _not_found(step: str, files: str) -> set[str]:
    """Names of code in a row that occur in none of the files of the row."""
    words = set(re.findall(r"`([\w.\[\]]+)`", f"{step} {files}"))
    places = {word for word in re.findall(r"`([\w./-]+)`", files) if (ROOT / word).exists()}
    names = {name for word in words - places for name in re.findall(r"[A-Za-z_]\w+", word)}
    text = "".join(_source(ROOT / place) for place in places)
    endings = {"py", "md", "toml", "txt", "yaml", "html", "j2"}
    return {name for name in names - endings if not re.search(rf"\b{name}\b", text)}


def _source(path: Path) -> str:
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return "".join(file.read_text(encoding="utf-8") for file in files)


# what the checks are there to find


@pytest.mark.parametrize(
    "command",
    [
        "lagwatch serve --bootstrap",
        "lagwatch serve --no-such-option",
        "lagwatch config",
        "lagwatch top --every never",
        "make everything",
        "pip install 'lagwatch[no-such-extra]'",
        "curl http://lagwatch:8000/v3/no/such/route",
        "no-such-program",
    ],
)
def test_a_command_that_does_not_exist_is_found(command: str) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 of the parser, or an assertion
        _can_be_given(command)


def test_a_word_of_a_command_or_route_that_does_not_exist_is_found() -> None:
    _is_command(["status", "--url"])
    assert _is_route("GET", "/v3/kafka/{cluster}")
    with pytest.raises(AssertionError):
        _is_command(["status", "--no-such-option"])
    with pytest.raises(KeyError):
        _is_command(["no-such-command"])
    assert not _is_route("POST", "/v3/kafka/{cluster}")


def test_a_link_to_nowhere_is_found() -> None:
    readme = ROOT / "README.md"

    assert _leads_somewhere(readme, "docs/verdicts.md#all-rules")
    assert not _leads_somewhere(readme, "docs/verdicts.md#no-such-heading")
    assert not _leads_somewhere(readme, "docs/no-such-page.md")


def test_output_that_is_not_what_a_command_prints_is_found() -> None:
    page = "```console\n$ lagwatch config check -c small.toml\nok: 2 clusters\n```\n"

    assert build.rendered(page) == page.replace("2 clusters", "1 cluster: prod")
