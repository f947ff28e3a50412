"""The files of the Parquet store by slot: publishes, lists and reads them."""

import itertools
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Final

import pyarrow as pa
import structlog

from lagwatch.core.record import Kind, Records, concat
from lagwatch.history.folder import Folder, StoredFile, open_folder
from lagwatch.history.layout import (
    Slot,
    cluster_of,
    cluster_path,
    day_of,
    is_data,
    slot_of,
)
from lagwatch.history.parquet_file import (
    Between,
    Footer,
    ForeignFileError,
    encode,
    group_rows,
    read_footer,
    read_rows,
    torn,
)
from lagwatch.history.rows import (
    GroupRange,
    matching,
    of_groups,
    parts_of,
    rows_by_group,
    sort_unique,
)
from lagwatch.ports.history import Allowed, HistoryRange, always

_CACHED_FOOTERS: Final = 2048
CHUNK_ROWS: Final = 500_000
"""More rows than this of one slot are read in several ranges of groups."""
_ATTEMPTS: Final = 5

_log = structlog.get_logger()


class ParquetSlots:
    """Slots of a folder or file system; used from several threads."""

    def __init__(
        self, where: str, *, chunk_rows: int = CHUNK_ROWS, allowed: Allowed = always
    ) -> None:
        """`allowed` is called right before a file is published; an exception stops that."""
        self.where = where
        self._allowed = allowed
        self._chunk_rows = chunk_rows
        self.folder: Folder = open_folder(where)
        self._footers: OrderedDict[tuple[str, int, int], Footer] = OrderedDict()
        self._lock = Lock()
        self._passed_over: dict[str, tuple[int, str]] = {}
        """By path: the version that could not be used, and why."""

    @property
    def passed_over(self) -> Mapping[str, str]:
        """Files that could not be used so far, with the reason of each."""
        with self._lock:
            return {path: problem for path, (_, problem) in self._passed_over.items()}

    def publish(
        self, slot: Slot, rows: Records, *, batch: str, replaces: Sequence[Footer] = ()
    ) -> StoredFile:
        """Put rows of one slot into one file, in the place of any file of the same batch.

        `replaces`: files whose rows are all among these.
        """
        unique, _ = sort_unique(rows)
        names = frozenset[str]().union(*({each.file.name, *each.replaces} for each in replaces))
        times: dict[str, Between] = {}
        for each in replaces:
            merged = bool(each.replaces) and each.replaces <= each.replaced_ms.keys()
            times |= {**each.replaced_ms, each.file.name: None if merged else each.between_ms}
        data = encode(slot, unique, replaces=names, replaced_ms=times)
        path = slot.file(batch)
        self.folder.publish(path, data, allowed=self._allowed)
        return StoredFile(path=path, size_bytes=data.size, version=0)

    def read_slot(self, slot: Slot, wanted: HistoryRange) -> Iterator[Records]:
        """The rows of one slot that are wanted, each record once."""
        columns = wanted.chosen
        for low, high in self._ranges(slot, wanted):
            if parts := self._read_range(slot, wanted, columns, low, high):
                rows = concat(parts)
                yield rows.select(columns) if "source" not in columns else rows

    def read_slot_groups(
        self, slot: Slot, wanted: HistoryRange, low: str | None, high: str | None
    ) -> list[Records]:
        """The same of groups with `low <= name < high`, at once: mostly in one part for a file."""
        return self._read_range(slot, wanted, wanted.chosen, low, high)

    def rows_by_group(self, slot: Slot, wanted: HistoryRange) -> Iterator[tuple[str, int]]:
        """Names of groups and their rows, those of row groups that the range only touches, too."""
        for footer in self.footers(slot):
            groups = footer.wanted_groups(wanted, None, None)
            with suppress(FileNotFoundError):  # compacted meanwhile
                rows = self.rows_of(footer, slot, groups, ("group",))
                if rows is not None:
                    yield from rows_by_group(rows)

    def footers(self, slot: Slot, files: Sequence[StoredFile] | None = None) -> list[Footer]:
        """The footers of a slot's files, in the order of writing.

        Without those whose rows are in another one, and those that cannot be used.
        """
        listed = self.folder.files(slot.path) if files is None else files
        footers = [
            footer
            for file in listed
            if is_data(file.name) and (footer := self._footer(file, slot.kind)) is not None
        ]
        replaced = frozenset[str]().union(*(footer.replaces for footer in footers))
        return [footer for footer in footers if footer.file.name not in replaced]

    def _footer(self, file: StoredFile, kind: Kind) -> Footer | None:
        key = (file.path, file.size_bytes, file.version)
        with self._lock:
            if key in self._footers:
                self._footers.move_to_end(key)
                return self._footers[key]
        try:
            footer = read_footer(self.folder, file, kind)
        except FileNotFoundError:
            return None
        except ForeignFileError as error:
            self.pass_over(file, str(error))
            return None
        except (pa.ArrowException, OSError) as error:
            self.pass_over(file, torn(error, file))
            return None
        with self._lock:
            self._footers[key] = footer
            while len(self._footers) > _CACHED_FOOTERS:
                self._footers.popitem(last=False)
        return footer

    def pass_over(self, file: StoredFile, problem: str) -> None:
        """Log once that a file is skipped; `history verify` lists it as well."""
        with self._lock:
            known = self._passed_over.get(file.path, (None, ""))[0] == file.version
            self._passed_over[file.path] = (file.version, problem)
        if not known:
            _log.error("history_file_passed_over", file=file.path, reason=problem)

    def forget_removed(self) -> None:
        """Pass over no longer what was removed, or replaced by another version, since then."""
        with self._lock:
            known = {path: version for path, (version, _) in self._passed_over.items()}
        folders = {path.rpartition("/")[0] for path in known}
        there = {file.path: file.version for each in folders for file in self.folder.files(each)}
        with self._lock:
            for path, version in known.items():
                if there.get(path) != version:
                    self._passed_over.pop(path, None)

    def slots(self, wanted: HistoryRange, cluster: str) -> list[Slot]:
        """Slots in the range of which there are files."""
        first, last = day_of(wanted.from_ms), day_of(wanted.to_ms - 1)
        found = set()
        for day in self.days(wanted.kind, cluster):
            if first <= day <= last:
                path = f"{cluster_path(wanted.kind, cluster)}/day={day}"
                hours = self.folder.names(path)
                paths = [f"{path}/{hour}/" for hour in hours] or [f"{path}/"]
                found |= {slot for file in paths if (slot := slot_of(file)) is not None}
        return [
            slot for slot in found if slot.from_ms < wanted.to_ms and slot.to_ms > wanted.from_ms
        ]

    def _ranges(self, slot: Slot, wanted: HistoryRange) -> list[GroupRange]:
        """Ranges of group names, each of not too many rows; together they cover all."""
        if wanted.group is not None:
            return [(None, None)]
        return parts_of(group_rows(self.footers(slot)), self._chunk_rows)

    def _read_range(
        self,
        slot: Slot,
        wanted: HistoryRange,
        columns: Sequence[str],
        low: str | None,
        high: str | None,
    ) -> list[Records]:
        for _ in range(_ATTEMPTS):
            try:
                return self._read_once(slot, wanted, columns, low, high)
            except FileNotFoundError:
                continue  # compacted meanwhile: look again
        return self._read_once(slot, wanted, columns, low, high)

    def _read_once(
        self,
        slot: Slot,
        wanted: HistoryRange,
        columns: Sequence[str],
        low: str | None,
        high: str | None,
    ) -> list[Records]:
        chosen = [
            (footer, groups)
            for footer in self.footers(slot)
            if (groups := footer.wanted_groups(wanted, low, high))
        ]
        with_source = list(dict.fromkeys([*columns, "source"]))
        parts = []
        for footer, groups in chosen:
            found = self.rows_of(footer, slot, groups, with_source)
            if found is None:
                continue
            rows = of_groups(matching(found, wanted), low, high)
            if rows.size:
                parts.append(rows)
        if parts and may_repeat([footer for footer, _ in chosen]):
            rows, _ = sort_unique(concat(parts))
            return [rows]
        return parts

    def rows_of(
        self, footer: Footer, slot: Slot, groups: Sequence[int], columns: Sequence[str]
    ) -> Records | None:
        """Columns of row groups; None, with a log line, when the file is torn.

        Raises:
            FileNotFoundError: the file was removed.
        """
        try:
            return read_rows(self.folder, footer, slot, groups, columns)
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError) as error:
            self.pass_over(footer.file, torn(error, footer.file))
            return None

    def days(self, kind: Kind, cluster: str) -> tuple[str, ...]:
        names = self.folder.names(cluster_path(kind, cluster))
        return tuple(name.removeprefix("day=") for name in names if name.startswith("day="))

    def clusters_of(self, kind: Kind) -> tuple[str, ...]:
        found = map(cluster_of, self.folder.names(str(kind)))
        return tuple(sorted(name for name in found if name is not None))

    def stored_slots(self, kind: Kind, cluster: str) -> Mapping[Slot, list[StoredFile]]:
        """Every slot of which there are files, with its files, in order."""
        found: dict[Slot, list[StoredFile]] = {}
        for file in self.folder.files(cluster_path(kind, cluster)):
            slot = slot_of(file.path)
            if slot is not None:
                found.setdefault(slot, []).append(file)
        return dict(sorted(found.items()))

    def close(self) -> None:
        with self._lock:
            self._footers.clear()


def may_repeat(footers: Sequence[Footer]) -> bool:
    """True if a record may occur twice. Not in files that lagwatch wrote for different times."""
    if not all(footer.ours for footer in footers):
        return True
    times = sorted(footer.between_ms for footer in footers)
    return any(after[0] <= before[1] for before, after in itertools.pairwise(times))
