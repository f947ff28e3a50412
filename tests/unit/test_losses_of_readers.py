"""Readers of many kinds beside a short retention: who loses messages, and who does not."""

import pytest

from tests.support.readers import Reader, Readers


def healthy() -> dict[str, Reader]:
    return {
        "at the log end": Reader(reads=5000),
        "at the log end, and deleted soon": Reader(reads=5000, deletes_s=2, kept_s=8),
        "a burst at once": Reader(reads=5000, writes=1, burst=(60, 2000), deletes_s=8, kept_s=4),
        "a burst between two commits": Reader(
            reads=5000, writes=1, burst=(60, 5000), commits_s=30, deletes_s=8, kept_s=4
        ),
        "a burst that it has fetched": Reader(
            reads=200, writes=1, burst=(60, 5000), deletes_s=8, kept_s=4, buffer=100_000
        ),
        "a commit a minute": Reader(reads=5000, commits_s=60, deletes_s=60, kept_s=8),
        "a commit in 150 s": Reader(reads=5000, commits_s=150, deletes_s=30, kept_s=10),
        "three seconds behind": Reader(reads=102, behind_s=3, deletes_s=5, kept_s=8),
        "half of it behind": Reader(reads=101, behind_s=30),
        "right before what is deleted": Reader(reads=101, behind_s=55),
        "catching up": Reader(reads=1000, behind_s=59),
        "catching up with what it has fetched": Reader(reads=300, behind_s=59, buffer=100_000),
        "slow and fast in turns": Reader(reads=1500, kept_s=30, slow=(100, 50, 30), buffer=100_000),
        "slow, with all of it fetched": Reader(
            reads=40, behind_s=20, deletes_s=5, kept_s=30, buffer=100_000
        ),
    }


def losing() -> dict[str, Reader]:
    return {
        "a third of it, deleted each minute": Reader(reads=30, deletes_s=60, kept_s=10),
        "a twentieth, deleted each minute": Reader(reads=5, deletes_s=60, kept_s=10),
        "half of it": Reader(reads=50, deletes_s=30, kept_s=30),
        "four fifths of it": Reader(reads=80, deletes_s=30, kept_s=30),
        "slow, with little fetched": Reader(
            reads=40, behind_s=20, deletes_s=5, kept_s=30, buffer=2000
        ),
        "thrown to the log end": Reader(reads=40, deletes_s=30, kept_s=30, buffer=500, latest=True),
        "hung for two minutes": Reader(reads=5000, kept_s=30, hangs=(300, 420)),
        "hung for a minute": Reader(reads=5000, commits_s=2, kept_s=20, hangs=(300, 370)),
        "away for less than a minute, behind a short retention": Reader(
            reads=1500, writes=50, commits_s=2, deletes_s=2, kept_s=10, away=(145, 105)
        ),
        "a job every two minutes": Reader(reads=5000, away=(120, 30), deletes_s=20, kept_s=30),
    }


MODES = pytest.mark.parametrize("exact_times", [True, False], ids=["read", "polled"])
STARTS = pytest.mark.parametrize("unseen_s", [0, 120], ids=["from the beginning", "started later"])


@STARTS
@MODES
@pytest.mark.parametrize("seed", [1, 2])
def test_who_reads_all_in_time_loses_nothing(
    *, exact_times: bool, unseen_s: int, seed: int
) -> None:
    kinds = healthy()
    seen = Readers(list(kinds.values()), exact_times=exact_times, seed=seed)
    seen.unseen(unseen_s)
    seen.watch(600)

    assert not any(reader.lost for reader in kinds.values())
    assert dict(zip(kinds, seen.counted(), strict=True)) == dict.fromkeys(kinds, 0)


@STARTS
@MODES
@pytest.mark.parametrize("seed", [1, 2])
def test_who_is_overtaken_by_retention_loses_messages(
    *, exact_times: bool, unseen_s: int, seed: int
) -> None:
    kinds = losing()
    seen = Readers(list(kinds.values()), exact_times=exact_times, seed=seed)
    seen.unseen(unseen_s)
    before = [reader.lost for reader in kinds.values()]
    seen.watch(720)

    lost = [reader.lost - first for reader, first in zip(kinds.values(), before, strict=True)]
    assert min(lost) > 4_000
    shares = {
        kind: said / true for kind, said, true in zip(kinds, seen.counted(), lost, strict=True)
    }
    least = 0.75 if unseen_s else 0.97  # what was lost around the start is not known whole
    assert {kind: share for kind, share in shares.items() if not least < share < 2.5} == {}
