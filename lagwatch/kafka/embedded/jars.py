"""A server's jars: fetched by their Maven coordinates, checked, and kept in the user's cache."""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from lagwatch.errors import MissingPartError
from lagwatch.java import cache_dir

KAFKA_VERSION = "4.2.0"

_CONNECTIONS = 6
_ATTEMPTS = 3
_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """One line of the lock file: an artifact and the only content it may have."""

    sha256: str
    size_bytes: int
    group: str
    artifact: str
    version: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    def is_whole(self, path: Path) -> bool:
        """Is the file at `path` exactly this jar?"""
        try:
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256
        except FileNotFoundError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """All jars of one server, as its lock file lists them."""

    title: str
    """For people: `Apache Kafka 4.2.0`."""
    lock_file: Path

    @property
    def name(self) -> str:
        """The directory in the cache: `kafka-4.2.0`."""
        return self.lock_file.stem


KAFKA_JARS = JarSet(
    title=f"Apache Kafka {KAFKA_VERSION}",
    lock_file=Path(__file__).with_name(f"kafka-{KAFKA_VERSION}.lock"),
)


def ensure_jars(directory: Path | None = None, jar_set: JarSet = KAFKA_JARS) -> Path:
    """Return the directory of the server's jars, after downloading what is missing or damaged.

    Progress goes to standard error. Several processes may call this at once: one downloads, the
    others wait for it. Every jar is checked against its SHA-256 each time.

    Raises:
        MissingPartError: a jar cannot be had, or is not what the lock file says.
    """
    directory = directory or cache_dir() / jar_set.name
    jars = locked_jars(jar_set)
    if missing := _missing(jars, directory):
        directory.mkdir(parents=True, exist_ok=True)
        with _alone(directory):
            if missing := _missing(jars, directory):
                _download(missing, directory, jar_set.title)
    return directory


def locked_jars(jar_set: JarSet = KAFKA_JARS) -> tuple[Jar, ...]:
    """Return every jar of the server's class path."""
    lines = jar_set.lock_file.read_text(encoding="ascii").splitlines()
    return tuple(_parse(line) for line in lines if not line.startswith("#"))


def _parse(line: str) -> Jar:
    sha256, size, coordinates = line.split()
    group, artifact, version = coordinates.split(":")
    return Jar(sha256=sha256, size_bytes=int(size), group=group, artifact=artifact, version=version)


def _missing(jars: Sequence[Jar], directory: Path) -> list[Jar]:
    return [jar for jar in jars if not jar.is_whole(directory / jar.file_name)]


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Hold the download lock of this directory; released by the system if we die."""
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _download(jars: Sequence[Jar], directory: Path, title: str) -> None:
    if importlib.util.find_spec("jgo") is None:
        raise MissingPartError(
            f"The jars of {title} are not in the cache, and their downloader is not installed: "
            "`pip install 'lagwatch[embedded]'`."
        )
    with (
        tempfile.TemporaryDirectory(prefix=".incoming-", dir=directory) as incoming,
        _progress(sum(jar.size_bytes for jar in jars), title) as progress,
        ThreadPoolExecutor(_CONNECTIONS) as pool,
    ):

        def fetch(jar: Jar) -> None:
            _fetch(jar, Path(incoming)).replace(directory / jar.file_name)
            progress.advance(progress.task_ids[0], jar.size_bytes)

        for done in [pool.submit(fetch, jar) for jar in jars]:
            done.result()


def _fetch(jar: Jar, incoming: Path) -> Path:
    """Download one jar and return its path below `incoming`."""
    reason = ""
    for attempt in range(_ATTEMPTS):
        repository = incoming / f"attempt-{attempt}"
        try:
            path = _resolve(jar, repository)
        except Exception as error:  # noqa: BLE001 - the resolver raises whatever HTTP or it may
            reason = f"{type(error).__name__}: {error}"
            continue
        if jar.is_whole(path):
            return path
        reason = "its SHA-256 is not the one in the lock file"
        shutil.rmtree(repository, ignore_errors=True)
    raise MissingPartError(
        f"Cannot download {jar.group}:{jar.artifact}:{jar.version}: {reason}. Check the network "
        "(the usual proxy variables are honoured), or name a Maven repository that can be reached "
        "in LAGWATCH_MAVEN_REPOSITORY."
    )


def _resolve(jar: Jar, repository: Path) -> Path:
    from jgo.maven import MavenContext  # noqa: PLC0415 - an extra, needed once per machine

    mirror = os.environ.get("LAGWATCH_MAVEN_REPOSITORY")
    context = MavenContext(
        repo_cache=repository,
        remote_repos={"mirror": mirror.rstrip("/")} if mirror else None,
        timeout=_TIMEOUT_S,
    )
    component = context.project(jar.group, jar.artifact).at_version(jar.version)
    return Path(component.artifact().resolve())


@contextlib.contextmanager
def _progress(total_bytes: int, title: str) -> Iterator[Progress]:
    """Show a bar on a terminal; on anything else two plain lines."""
    console = Console(stderr=True)
    if not console.is_terminal:
        console.print(f"Downloading {title}: {total_bytes / 1e6:.0f} MB", highlight=False)
    progress = Progress(
        TextColumn(f"Downloading {title}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
    )
    progress.add_task("jars", total=total_bytes)
    with progress:
        yield progress
