"""Only what something happened to is judged, and the verdicts are those of judging all rows.

`tests/conftest.py` lets rounds of every test judge all rows as well and compare; here all do.
"""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.judged import Judged
from tests.support.stepped_cluster import SteppedCluster

GROUPS = ("a", "b", "c")


@pytest.fixture(scope="module", autouse=True)
def _every_round() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Judged, "compares_every", 1)
        yield


_steps = st.lists(
    st.tuples(
        st.sampled_from(
            ("commit", "back", "still", "grow", "open", "hold", "empty", "away", "restart", "rest")
        ),
        st.sampled_from(GROUPS),
        st.integers(0, 1),
        st.sampled_from((1, 5, 20, 31, 60, 200, 700)),
    ),
    min_size=5,
    max_size=40,
)


def _begin(rules: str = "lagwatch") -> SteppedCluster:
    told = SteppedCluster(rules=rules)
    told.create("t")
    told.grow("t", 50)
    told.ends()
    for group in GROUPS:
        told.commit(group, "t", 0, 10)
        told.commit(group, "t", 1, 50)
    told.wait(5)
    told.ends()
    told.judge()
    return told


@given(_steps, st.sampled_from(("lagwatch", "burrow")))
def test_what_is_not_judged_again_would_be_judged_the_same(steps, rules: str) -> None:
    told, offset = _begin(rules), 10
    for kind, group, partition, wait_s in steps:
        match kind:
            case "commit":
                offset += 3
                told.commit(group, "t", partition, offset)
            case "back":
                told.commit(group, "t", partition, max(0, offset - 7))
            case "still":
                told.commit(group, "t", partition, offset)
            case "grow":
                told.grow("t", 40)
            case "hold":
                told.groups_hold(group, "t", partition)
            case "empty":
                told.list_groups(group)
            case "restart":
                told.restart(away_s=wait_s)
        told.wait(wait_s)
        if kind != "away":
            told.ends(stable=offset if kind == "open" else None)
        told.judge()


@pytest.mark.parametrize("rules", ["lagwatch", "burrow"])
def test_a_commit_makes_its_own_row_judged_and_no_other(rules: str) -> None:
    told = _begin(rules)
    told.wait(1)
    told.ends()
    told.judge()
    told.commit("b", "t", 0, 12)
    told.wait(1)
    told.ends()

    snapshot = told.judge()

    judged = told.monitor.judged_rows
    assert judged is not None
    assert snapshot.rows.committed[judged].tolist() == [12]


def test_members_that_come_and_go_make_their_rows_judged() -> None:
    told = _begin()
    seen = []
    for change in (
        lambda: told.list_groups("a"),
        lambda: told.groups_hold("a", "t", 0),
        lambda: told.list_groups("a"),
    ):
        told.wait(1)
        told.ends()
        told.judge()
        change()
        told.wait(1)
        told.ends()
        told.judge()
        seen.append(told.monitor.judged_rows)

    # both rows of the group
    assert [None if rows is None else rows.tolist() for rows in seen] == [[0, 1]] * 3


def test_columns_that_do_not_change_are_shared_by_snapshots() -> None:
    told = _begin()
    told.wait(1)
    told.ends()
    first = told.judge()
    told.commit("b", "t", 0, 12)
    told.wait(1)
    told.ends()

    second = told.judge()

    assert second.rows.since_ms is first.rows.since_ms
    assert first.rows.committed.tolist() == [10, 50] * 3
    assert np.flatnonzero(second.rows.committed != first.rows.committed).tolist() == [2]
