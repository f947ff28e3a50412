"""One Parquet file of the store: writes it, reads its footer, reads parts of it."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lagwatch.core.record import SCHEMA_VERSION, ColumnType, Kind, Records, Text, schema
from lagwatch.core.record.columns import ROLLUP_STEP_MS
from lagwatch.history.arrow import from_table, to_table
from lagwatch.history.folder import STORE, Folder, StoredFile
from lagwatch.history.layout import Slot
from lagwatch.ports.history import EVER_MS, HistoryRange

ROWS_PER_GROUP: Final = 32_768
"""Small, so that one group's rows can be read without those of many others."""
_LEVEL: Final = 1

_KIND: Final = b"lagwatch.kind"
_VERSION: Final = b"lagwatch.schema_version"
_CLUSTER: Final = b"lagwatch.cluster"
_REPLACES: Final = b"lagwatch.replaces"
_REPLACED_MS: Final = b"lagwatch.replaced_ms"

_ENCODING: Final = {
    ColumnType.INT64: "DELTA_BINARY_PACKED",
    ColumnType.INSTANT: "DELTA_BINARY_PACKED",
    ColumnType.BINARY: "DELTA_LENGTH_BYTE_ARRAY",
}

Between = tuple[int, int] | None
_NONE: Final[Mapping[str, Between]] = MappingProxyType({})

Bounds = tuple[Any, Any] | None
"""Least and greatest value; None when not known."""


class ForeignFileError(Exception):
    """A file that another program, or a later release, wrote; the text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """Statistics of some consecutive rows, from the footer."""

    number: int
    rows: int
    bounds: Mapping[str, Bounds]
    """By key column."""
    nulls: Mapping[str, bool]
    """By key column: True if there may be unknown values."""

    def may_hold(self, name: str, value: object) -> bool:
        """True if a row may have this value."""
        bounds = self.bounds.get(name)
        return bounds is None or bool(bounds[0] <= value <= bounds[1])

    def overlaps(self, name: str, low: Any, high: Any) -> bool:  # noqa: ANN401
        """True if a row may have `low <= value < high`. None is no limit."""
        bounds = self.bounds.get(name)
        if bounds is None or (low is None and self.nulls.get(name, True)):
            return True
        return (high is None or bool(bounds[0] < high)) and (low is None or bool(bounds[1] >= low))


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """The footer of a file."""

    file: StoredFile
    metadata: Any
    """`pyarrow.parquet.FileMetaData`"""
    rows: int
    groups: tuple[RowGroup, ...]
    columns: frozenset[str]
    replaces: frozenset[str]
    """Names of files in the same folder whose rows are all in this one."""
    replaced_ms: Mapping[str, Between]
    """First and last instant of each of these; a merge by an earlier release does not say.

    None: it was merged itself, and the files it was merged from are here as well.
    """
    ours: bool
    """Written by this store: sorted, each record once."""
    first_ms: int | None
    last_ms: int | None

    @property
    def between_ms(self) -> tuple[int, int]:
        """No row is before the first or after the second instant."""
        if self.first_ms is None or self.last_ms is None:
            return 0, EVER_MS
        return self.first_ms, self.last_ms

    def wanted_groups(self, wanted: HistoryRange, low: str | None, high: str | None) -> list[int]:
        """Row groups that may hold rows of the range with `low <= group < high`."""
        return [
            group.number for group in self.groups if _may_hold(group, wanted, low=low, high=high)
        ]


def group_rows(footers: Iterable[Footer]) -> Iterator[tuple[str, int]]:
    """Names of groups, and about how many rows of files are of groups from there to the next name.

    Half of a row group's rows count for its first name and half for its last: of roll-ups, one may
    hold the end of one level and the begin of another, and so names from first to last.
    """
    for footer in footers:
        for group in footer.groups:
            bounds = group.bounds.get("group")
            if bounds is not None:
                half = group.rows // 2
                yield str(bounds[0]), group.rows - half
                yield str(bounds[1]), half


def _may_hold(group: RowGroup, wanted: HistoryRange, *, low: str | None, high: str | None) -> bool:
    time = wanted.kind.time_column
    given = (
        (name, value)
        for name, value in (
            ("group", wanted.group),
            ("topic", wanted.topic),
            ("partition", wanted.partition),
        )
        if value is not None
    )
    return (
        group.overlaps(time, wanted.from_ms, wanted.to_ms)
        and group.overlaps("group", low, high)
        and all(group.may_hold(name, value) for name, value in given)
    )


def encode(
    slot: Slot,
    records: Records,
    *,
    replaces: Iterable[str] = (),
    replaced_ms: Mapping[str, Between] = _NONE,
) -> Any:  # noqa: ANN401
    """A whole file as a buffer; `records` are sorted by key, all of the slot's cluster.

    The rest as in `Footer`.
    """
    columns = {name: records.columns[name] for name in records.columns if name != "cluster"}
    table = to_table(Records(kind=records.kind, columns=columns))
    table = table.replace_schema_metadata(None)
    known = schema(slot.kind)
    # quantiles and rates of roll-ups come again and again, time lags of samples do not
    often = {ColumnType.TEXT, *({ColumnType.FLOAT64} if slot.kind in ROLLUP_STEP_MS else ())}
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        table.schema,
        compression="zstd",
        compression_level=_LEVEL,
        # our reader asks for dictionaries itself; others get plain strings
        store_schema=False,
        write_page_checksum=True,
        use_dictionary=[name for name in columns if known[name].type in often],
        column_encoding={
            name: _ENCODING[known[name].type] for name in columns if known[name].type in _ENCODING
        },
    ) as writer:
        writer.write_table(table, row_group_size=ROWS_PER_GROUP)
        writer.add_key_value_metadata(
            {
                _KIND: slot.kind.value,
                _VERSION: str(SCHEMA_VERSION),
                _CLUSTER: slot.cluster,
                _REPLACES: json.dumps(sorted(replaces)),
                _REPLACED_MS: json.dumps(dict(replaced_ms), sort_keys=True),
            }
        )
    return sink.getvalue()


def read_footer(folder: Folder, file: StoredFile, kind: Kind) -> Footer:
    """Read the footer of a file.

    Raises:
        FileNotFoundError: the file was removed.
        ForeignFileError: it is not one of ours, or of a later release.
        ArrowException: it is torn.
    """
    with folder.open(file.path) as source:
        metadata = pq.read_metadata(source)
    said = metadata.metadata or {}
    _check(said, file, kind, frozenset(metadata.schema.names))
    groups = tuple(_row_group(metadata, number, kind) for number in range(metadata.num_row_groups))
    time = kind.time_column
    known = [bounds for group in groups if (bounds := group.bounds.get(time)) is not None]
    return Footer(
        file=file,
        metadata=metadata,
        rows=metadata.num_rows,
        groups=groups,
        columns=frozenset(metadata.schema.names),
        replaces=frozenset(json.loads(said.get(_REPLACES, b"[]"))),
        replaced_ms={
            name: None if between is None else (between[0], between[1])
            for name, between in json.loads(said.get(_REPLACED_MS, b"{}")).items()
        },
        ours=_KIND in said,
        first_ms=min((bounds[0] for bounds in known), default=None),
        last_ms=max((bounds[1] for bounds in known), default=None),
    )


def _check(said: Mapping[bytes, bytes], file: StoredFile, kind: Kind, held: frozenset[str]) -> None:
    """Files that others wrote with our columns (Spark does) are welcome."""
    missing = [name for name in kind.key if name != "cluster" and name not in held]
    if missing or "source" not in held:
        raise ForeignFileError(f"{file.path}: lacks the columns {', '.join(missing) or 'source'}")
    if said.get(_KIND, kind.value.encode()) != kind.value.encode():
        raise ForeignFileError(f"{file.path}: holds {said[_KIND].decode()}, not {kind}")
    version = said.get(_VERSION, b"1").decode()
    if not version.isdecimal() or int(version) > SCHEMA_VERSION:
        raise ForeignFileError(
            f"{file.path}: schema version {version}; this release knows up to {SCHEMA_VERSION}. "
            "Read it with the release that wrote it, or a later one."
        )


def _row_group(metadata: Any, number: int, kind: Kind) -> RowGroup:  # noqa: ANN401
    group = metadata.row_group(number)
    bounds: dict[str, Bounds] = {}
    nulls: dict[str, bool] = {}
    for index in range(group.num_columns):
        column = group.column(index)
        name = column.path_in_schema
        if name not in kind.key:
            continue
        statistics = column.statistics
        if statistics is not None and statistics.has_min_max:
            bounds[name] = (statistics.min, statistics.max)
        nulls[name] = not (
            statistics is not None and statistics.has_null_count and not statistics.null_count
        )
    return RowGroup(number=number, rows=group.num_rows, bounds=bounds, nulls=nulls)


def read_rows(
    folder: Folder,
    footer: Footer,
    slot: Slot,
    groups: Sequence[int],
    columns: Sequence[str],
) -> Records:
    """These columns of these row groups, every page checked against its checksum.

    Raises:
        FileNotFoundError: the file was removed.
        ArrowException: it is torn.
    """
    known = schema(slot.kind)
    held = [name for name in columns if name in footer.columns]
    text = [name for name in held if known[name].type is ColumnType.TEXT]
    with (
        folder.open(footer.file.path) as source,
        pq.ParquetFile(
            source,
            metadata=footer.metadata,
            read_dictionary=text,
            pre_buffer=False,
            page_checksum_verification=True,
        ) as file,
    ):
        table = file.read_row_groups(groups, columns=held, use_threads=False)
    rows = from_table(slot.kind, table, [name for name in columns if name != "cluster"])
    filled = {"cluster": Text.same(slot.cluster, table.num_rows)} if "cluster" in columns else {}
    return Records(
        kind=slot.kind,
        columns={name: filled[name] if name in filled else rows.columns[name] for name in columns},
    )


def torn(error: pa.ArrowException, file: StoredFile) -> str:
    """The sentence about a file that cannot be read."""
    return f"{STORE} file {file.path} cannot be read: {error}"
