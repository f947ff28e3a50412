"""Kafka's jars come whole or not at all, and once; checked against a mirror on loopback."""

import functools
import http.server
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lagwatch.errors import MissingPartError
from lagwatch.kafka.embedded.jars import ensure_jars, locked_jars


class Mirror(http.server.ThreadingHTTPServer):
    """A Maven repository that counts what it is asked for."""

    def __init__(self, root: Path) -> None:
        self.asked: Counter[str] = Counter()
        super().__init__(
            ("127.0.0.1", 0), functools.partial(CountingHandler, self.asked, directory=str(root))
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class CountingHandler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, asked: Counter[str], *args: object, directory: str) -> None:
        self.asked = asked
        super().__init__(*args, directory=directory)  # type: ignore[arg-type] # as the server calls

    def do_GET(self) -> None:
        if self.path.endswith(".jar"):
            self.asked[self.path.rsplit("/", 1)[1]] += 1
        super().do_GET()

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    root = tmp_path / "mirror"
    whole = ensure_jars()
    for jar in locked_jars():
        path = root.joinpath(*jar.group.split("."), jar.artifact, jar.version, jar.file_name)
        path.parent.mkdir(parents=True)
        path.symlink_to(whole / jar.file_name)
    with Mirror(root) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        monkeypatch.setenv("LAGWATCH_MAVEN_REPOSITORY", server.url)
        yield server
        server.shutdown()
        serving.join()


def test_only_missing_and_damaged_jars_are_fetched(mirror: Mirror, tmp_path: Path) -> None:
    target = ensure_jars(tmp_path / "jars")
    mirror.asked.clear()
    missing, damaged = locked_jars()[0], locked_jars()[1]
    (target / missing.file_name).unlink()
    (target / damaged.file_name).write_bytes(b"half a j")

    ensure_jars(target)

    assert mirror.asked == {missing.file_name: 1, damaged.file_name: 1}
    assert all(jar.is_whole(target / jar.file_name) for jar in locked_jars())


def test_two_processes_at_once_fetch_each_jar_once(mirror: Mirror, tmp_path: Path) -> None:
    fetch = "import sys, pathlib; from lagwatch.kafka.embedded.jars import ensure_jars; "
    command = [sys.executable, "-c", fetch + "ensure_jars(pathlib.Path(sys.argv[1]))"]
    target = tmp_path / "jars"

    both = [
        subprocess.Popen([*command, str(target)], stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = "".join(process.communicate(timeout=120)[1] for process in both)

    assert [process.returncode for process in both] == [0, 0]
    assert mirror.asked == dict.fromkeys((jar.file_name for jar in locked_jars()), 1)
    assert said.count("Downloading Apache Kafka 4.2.0: 45 MB") == 1


def test_a_jar_that_is_not_the_locked_one_is_refused(mirror: Mirror, tmp_path: Path) -> None:
    forged = locked_jars()[0]
    original = next((tmp_path / "mirror").rglob(forged.file_name))
    original.unlink()
    original.write_bytes(b"something else")

    with pytest.raises(MissingPartError, match=rf"{forged.artifact}.*SHA-256"):
        ensure_jars(tmp_path / "jars")

    assert mirror.asked[forged.file_name] == 3
    assert not (tmp_path / "jars" / forged.file_name).exists()


def test_an_unreachable_repository_is_named_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAGWATCH_MAVEN_REPOSITORY", "http://127.0.0.1:9")

    with pytest.raises(MissingPartError, match="LAGWATCH_MAVEN_REPOSITORY"):
        ensure_jars(tmp_path / "jars")
