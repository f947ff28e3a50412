"""A checkpoint on disk: whole or left out, never half believed."""

import asyncio
import contextlib
import json
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from structlog.testing import capture_logs

from lagwatch.clock import SystemClock
from lagwatch.config.load import load
from lagwatch.errors import ConfigError
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.checkpoint_file import decode, encode, pack, unpack
from lagwatch.monitor.keeper import CheckpointKeeper
from lagwatch.monitor.settings import monitor_settings
from lagwatch.service import Service
from tests.support.history import SetClock
from tests.support.small_disk import small_disk
from tests.support.stepped_cluster import SteppedCluster


class Place:
    """A configuration with its folder, and a monitor with one row."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stepped = SteppedCluster(intervals=10)
        self.stepped.create("t")
        self.stepped.commit("g", "t", 0, 5)
        self.stepped.ends()
        self.stepped.judge()
        self.clock = SetClock(self.stepped.now_ms)
        self.path = folder / "state" / "here.checkpoint"

    def keeper(self, monitor: ClusterMonitor, **changes: str) -> CheckpointKeeper:
        sections = {"path": json.dumps(str(self.folder / "state"))} | changes
        cluster = sections.pop("cluster", "")
        windows = sections.pop("windows", "")
        name = sections.pop("name", "here")
        file = self.folder / "lagwatch.toml"
        options = "\n".join(f"{option} = {value}" for option, value in sections.items())
        file.write_text(
            f"[windows]\n{windows}\n[checkpoint]\n{options}\n"
            f'[clusters.{name}]\nbootstrap = "kafka:9092"\n{cluster}\n'
        )
        return CheckpointKeeper(load(file, {}), self.clock, {name: monitor})

    def save(self) -> None:
        asyncio.run(self.keeper(self.stepped.monitor).write())

    def restored(self, **changes: str) -> tuple[int, str]:
        """Rows of a new monitor, and what the log says."""
        keeper = self.keeper(self.stepped.monitor, **changes)
        name = changes.get("name", "here")
        settings = load(self.folder / "lagwatch.toml", {})
        monitor = ClusterMonitor(
            name, monitor_settings(settings.windows, settings.evaluator, settings.clusters[name])
        )
        keeper = self.keeper(monitor, **changes)
        with capture_logs() as logs:
            asyncio.run(keeper.restore(name))
        (line,) = logs
        return monitor.windows.rows, line.get("reason", line["event"])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_checkpoint_is_found_again(place) -> None:
    place.save()

    assert place.restored() == (1, "checkpoint_restored")


def test_a_folder_belongs_to_one_lagwatch_at_a_time(place) -> None:
    first, second = (place.keeper(place.stepped.monitor) for _ in range(2))
    first.hold()

    with pytest.raises(ConfigError, match=r"checkpoint\.path .*/state.*used by another .* Give"):
        second.hold()
    first.release()
    second.hold()
    second.release()


def test_a_folder_that_cannot_be_made_is_no_reason_not_to_start(place) -> None:
    (place.folder / "state").write_text("a file")

    place.keeper(place.stepped.monitor).hold()


def test_only_its_owner_may_read_it(place) -> None:
    place.save()

    modes = [stat.S_IMODE(each.stat().st_mode) for each in (place.path, place.path.parent)]
    assert modes == [0o600, 0o700]
    assert [each.name for each in place.path.parent.iterdir()] == ["here.checkpoint"]


def test_without_a_file_all_begins_anew(place) -> None:
    assert place.restored() == (0, "there is none yet")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"x"), "its checksum is wrong"),
        (lambda path: path.write_bytes(b"something else"), "the file is not a checkpoint"),
        (lambda path: path.write_bytes(b""), "the file is empty"),
        (lambda path: (path.unlink(), path.mkdir()), "it cannot be read: Is a directory"),
    ],
)
def test_a_file_that_is_damaged_is_a_warning_and_a_problem_until_the_next_is_written(
    place, spoil, reason
) -> None:
    place.save()
    spoil(place.path)
    keeper = place.keeper(place.stepped.monitor)

    with capture_logs() as logs:
        asyncio.run(keeper.restore("here"))
    problem = keeper.found_odd("here")
    if place.path.is_dir():
        place.path.rmdir()
    asyncio.run(keeper.write())

    assert [(log["event"], log["log_level"]) for log in logs] == [
        ("checkpoint_not_used", "warning")
    ]
    assert reason in problem
    assert str(place.path) in problem
    assert keeper.found_odd("here") == ""


def test_a_damaged_file_is_a_problem_of_its_cluster_alone(tmp_path) -> None:
    state, config = tmp_path / "state", tmp_path / "lagwatch.toml"
    state.mkdir()
    (state / "east.checkpoint").write_bytes(b"something else")
    config.write_text(
        f'[checkpoint]\npath = "{state}"\n[history]\nstore = "none"\n'
        '[clusters.east]\nbootstrap = "127.0.0.1:1"\n[clusters.west]\nbootstrap = "127.0.0.1:1"\n'
    )
    service = Service(load(config, {}), SystemClock())
    assert service.checkpoints is not None

    for name in ("east", "west"):
        asyncio.run(service.checkpoints.restore(name))
    problems = {each.cluster: each.problems for each in service.health()}
    service.close()

    (problem,) = problems["east"]
    assert problem.startswith(f"checkpoints: {state / 'east.checkpoint'} was not used (the file is")
    assert problems["west"] == ()


def test_the_file_of_another_cluster_is_a_warning(place) -> None:
    place.save()
    place.path.rename(place.path.with_name("there.checkpoint"))
    keeper = place.keeper(place.stepped.monitor, name="there")

    asyncio.run(keeper.restore("there"))

    assert "it is of cluster here" in keeper.found_odd("there")


def test_a_missing_or_old_file_is_no_problem(place) -> None:
    keeper = place.keeper(place.stepped.monitor)

    with capture_logs() as logs:
        asyncio.run(keeper.restore("here"))
        place.save()
        place.clock.ms += 25 * 3_600_000
        asyncio.run(keeper.restore("here"))

    unused = [log["log_level"] for log in logs if log["event"] == "checkpoint_not_used"]
    assert unused == ["info", "info"]
    assert keeper.found_odd("here") == ""


def _places(whole: bytes) -> list[int]:
    """One of each class of positions: magic, length, header, columns, checksum."""
    header = whole.index(b'"parts"')
    return [0, 10, 20, 23, 24, header, len(whole) // 2, len(whole) - 33, len(whole) - 1]


@pytest.mark.parametrize("number", range(9))
def test_a_file_that_is_cut_off_is_left_out(place, number) -> None:
    place.save()
    whole = place.path.read_bytes()
    place.path.write_bytes(whole[: _places(whole)[number]])

    rows, reason = place.restored()

    assert rows == 0
    assert "the file is" in reason


@pytest.mark.parametrize("number", range(9))
def test_a_file_with_a_flipped_bit_is_left_out(place, number) -> None:
    place.save()
    whole = bytearray(place.path.read_bytes())
    whole[_places(bytes(whole))[number]] ^= 4
    place.path.write_bytes(whole)

    rows, reason = place.restored()

    assert rows == 0
    assert "the file is" in reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"windows": "intervals = 5"}, "windows.intervals was 10 then"),
        ({"cluster": 'offsets_topic = "other"'}, "offsets_topic was '__consumer_offsets' then"),
        ({"cluster": 'group_deny = "^x"'}, "group_deny was '' then"),
        ({"cluster": 'commits = "admin"'}, "commits was 'auto' then"),
    ],
)
def test_one_of_other_options_is_left_out(place, changes, reason) -> None:
    place.save()

    rows, said = place.restored(**changes)

    assert rows == 0
    assert reason in said


def test_one_of_another_cluster_is_left_out(place) -> None:
    place.save()
    place.path.rename(place.path.with_name("there.checkpoint"))

    assert place.restored(name="there") == (0, "it is of cluster here")


@pytest.mark.parametrize(
    ("later_s", "reason"),
    [(86_400 + 3600, "1 d 1 h old"), (-120, "written in the future")],
)
def test_one_of_another_time_is_left_out(place, later_s, reason) -> None:
    place.save()
    place.clock.ms += later_s * 1000

    rows, said = place.restored()

    assert rows == 0
    assert reason in said


def test_one_of_a_later_format_is_left_out(place) -> None:
    place.path.parent.mkdir()
    place.path.write_bytes(encode({"lagwatch": "later"}, [], version=2))

    rows, said = place.restored()

    assert rows == 0
    assert "its format is 2" in said


def test_nothing_is_written_while_nothing_changes(place) -> None:
    keeper = place.keeper(place.stepped.monitor)
    asyncio.run(keeper.write())
    place.path.unlink()

    asyncio.run(keeper.write())
    untouched = place.path.exists()
    place.stepped.wait(5)
    place.stepped.ends()
    asyncio.run(keeper.write())

    assert not untouched
    assert place.path.exists()


def _as_a_first_write(place: Place) -> list[object]:
    """The file, as columns, beside that of a keeper that has not written before."""
    beside = place.path.with_name("beside")
    place.path.rename(beside)
    place.save()
    files = [decode(each.read_bytes()) for each in (beside, place.path)]
    beside.rename(place.path)
    return [
        [{name: column.tolist() for name, column in part.items()} for part in unpack(*each)]
        for each in files
    ]


@pytest.mark.parametrize("harm", ["none", "damaged", "lost", "of another"])
def test_rows_that_did_not_change_are_in_the_next_file_as_well(place, harm) -> None:
    keeper = place.keeper(place.stepped.monitor)
    place.stepped.commit("h", "t", 1, 7)
    for _ in range(4):
        place.stepped.wait(5)
        place.stepped.ends()
        asyncio.run(keeper.write())
    match harm:
        case "damaged":
            whole = bytearray(place.path.read_bytes())
            whole[-100] ^= 1
            place.path.write_bytes(whole)
        case "lost":
            place.path.unlink()
        case "of another":
            place.path.write_bytes(encode({"format": 1}, []))
    place.stepped.wait(5)
    place.stepped.ends()

    asyncio.run(keeper.write())

    ours, first = _as_a_first_write(place)
    assert ours == first
    assert place.restored() == (2, "checkpoint_restored")


def test_rows_that_changed_while_a_write_failed_are_in_the_next_file(place) -> None:
    keeper = place.keeper(place.stepped.monitor)
    folder, aside = place.path.parent, place.folder / "aside"
    for offset in range(6, 10):
        place.stepped.wait(5)
        place.stepped.commit("g", "t", 0, offset)
        place.stepped.ends()
        asyncio.run(keeper.write())
    folder.rename(aside)
    folder.write_text("a file in its place")
    place.stepped.wait(5)
    place.stepped.commit("g", "t", 0, 10)
    place.stepped.ends()
    asyncio.run(keeper.write())
    folder.unlink()
    aside.rename(folder)

    asyncio.run(keeper.write())

    ours, first = _as_a_first_write(place)
    assert ours == first


def test_nothing_is_written_before_everything_was_known_once(place) -> None:
    fresh = ClusterMonitor("here", place.stepped.settings)

    asyncio.run(place.keeper(fresh).write())

    assert not place.path.exists()


def test_without_a_path_there_are_no_checkpoints(place) -> None:
    keeper = place.keeper(place.stepped.monitor, path='""')

    asyncio.run(keeper.write())
    with capture_logs() as logs:
        asyncio.run(keeper.restore("here"))

    assert logs == []
    assert not place.path.parent.exists()


def test_a_folder_that_cannot_be_made_is_logged_with_its_remedy(place) -> None:
    (place.folder / "state").write_text("a file in its place")

    with capture_logs() as logs:
        place.save()
    rows, reason = place.restored()

    (line,) = logs
    assert (line["event"], line["log_level"]) == ("checkpoint_not_written", "error")
    assert "checkpoint.path" in line["remedy"]
    assert rows == 0
    assert "cannot be read" in reason


def test_what_a_killed_process_left_does_not_disturb(place) -> None:
    place.path.parent.mkdir()
    (place.path.parent / ".here.checkpoint.tmp").write_bytes(b"half")

    place.save()

    assert place.restored()[0] == 1
    assert [each.name for each in place.path.parent.iterdir()] == ["here.checkpoint"]


def test_a_stop_does_not_wait_longer_than_it_may(place) -> None:
    keeper = place.keeper(place.stepped.monitor)

    with capture_logs() as logs:
        asyncio.run(keeper.stop(0.0))

    assert [line["event"] for line in logs] == ["checkpoint_given_up"]
    assert not place.path.exists()


class BusyClock(SetClock):
    """Things happen while its owner sleeps; then it ends."""

    def __init__(
        self, now_ms: int, happens: Mapping[float, Callable[[], None]], *, end_s: float
    ) -> None:
        super().__init__(now_ms)
        self._began_ms = now_ms
        self._happens = dict(happens)
        self._end_s = end_s

    async def sleep(self, delay_s: float) -> None:
        await super().sleep(delay_s)
        passed_s = (self.ms - self._began_ms) / 1000
        for at_s in [each for each in self._happens if each <= passed_s]:
            self._happens.pop(at_s)()
        if passed_s > self._end_s:
            raise asyncio.CancelledError


def test_a_loss_is_on_disk_a_few_seconds_later_and_once_in_an_interval(place) -> None:
    monitor, written_s = place.stepped.monitor, []

    def lose() -> None:
        monitor.setbacks.lose(0, messages=1, until=5, now_ms=0, exact=True)
        place.stepped.judge()

    began_ms = place.clock.ms
    place.clock = BusyClock(began_ms, {70: lose, 80: lose, 90: lose, 130: lose}, end_s=185)
    keeper = place.keeper(monitor)
    write = keeper.write

    async def noted() -> None:
        written_s.append((place.clock.ms - began_ms) / 1000)
        await write()

    keeper.write = noted
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(keeper.run())

    assert written_s == [60, 70, 120, 130, 180]


def test_a_topic_made_anew_is_news() -> None:
    """It is recorded once: an older checkpoint would find it again."""
    cluster = SteppedCluster()
    cluster.create("t", 1)
    cluster.grow("t", 100)
    for number in range(1, 4):
        cluster.commit("g", "t", 0, 10 * number)
        cluster.ends()
        cluster.judge()
        cluster.wait(5)
    before = cluster.monitor.happened

    cluster.create("t", 2)

    assert cluster.monitor.happened > before


def test_an_acknowledged_loss_is_news_that_is_written_although_nothing_else_changed(place) -> None:
    monitor = place.stepped.monitor
    monitor.setbacks.lose(0, messages=1, until=5, now_ms=place.clock.ms, exact=True)
    keeper = place.keeper(monitor)
    asyncio.run(keeper.write())
    place.path.unlink()
    before = monitor.happened

    monitor.acknowledge_losses("g")
    after = monitor.happened
    asyncio.run(keeper.write_of("here"))
    written = place.path.exists()
    place.path.unlink()
    monitor.acknowledge_losses("g")  # nothing is left to be acknowledged
    asyncio.run(keeper.write_of("here"))

    assert after > before == monitor.happened - 1
    assert written
    assert not place.path.exists()


@given(
    arrays.arrays(
        st.sampled_from([np.int64, np.uint32, np.int32, np.uint16, np.int8, np.float32, np.bool_]),
        arrays.array_shapes(min_dims=1, max_dims=2, min_side=0),
    )
)
def test_columns_come_out_of_the_file_as_they_went_in(column) -> None:
    header, body = decode(encode({}, [pack({"column": column})]))

    (part,) = unpack(header, body)

    assert part["column"].dtype == column.dtype
    np.testing.assert_array_equal(part["column"], column)


def test_a_full_disk_keeps_the_last_checkpoint_and_is_said_until_there_is_room(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path / "disk", 1) as folder:
        place = Place(folder)
        keeper = place.keeper(place.stepped.monitor)
        asyncio.run(keeper.write())
        saved = place.path.read_bytes()
        filler = folder / "filler"
        _fill(filler)

        place.stepped.commit("g", "t", 0, 6)
        place.stepped.ends()
        place.stepped.judge()
        with capture_logs() as logs:
            for _ in range(3):
                asyncio.run(keeper.write())
        while_full = keeper.problem
        left = sorted(each.name for each in place.path.parent.iterdir())
        unchanged = place.path.read_bytes() == saved
        filler.unlink()
        asyncio.run(keeper.write())

        assert "No space left on device" in while_full
        assert [each["event"] for each in logs] == ["checkpoint_not_written"]
        assert left == ["here.checkpoint"]
        assert unchanged
        assert keeper.problem == ""
        assert place.path.read_bytes() != saved


def _fill(file: Path) -> None:
    with file.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while True:
            stream.write(bytes(4096))
