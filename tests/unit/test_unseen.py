"""Offsets that were passed before the process began, and the answer of the stored history."""

import numpy as np

from lagwatch.core.model import TimeLagMethod, TimeLagReason
from lagwatch.core.stored_search import Enclosed
from lagwatch.monitor.unseen import Unseen, unseen
from tests.support.history import NOON_MS, Live


def _started() -> Live:
    """`billing` has 40 messages to read in partition 0, none in 1; `audit` has 10 in 2."""
    live = Live()
    live.topics(orders=3)
    live.wait(1)
    live.commit(
        ("billing", "orders", 0, 60), ("billing", "orders", 1, 100), ("audit", "orders", 2, 90)
    )
    live.wait(1)
    live.judge()
    return live


def _answered(asked: Unseen, low_ms: int, high_ms: int) -> Enclosed:
    size = asked.row.size
    return Enclosed(
        low_ms=np.full(size, low_ms, np.int64),
        high_ms=np.full(size, high_ms, np.int64),
        share=np.full(size, 0.5, np.float32),
    )


def test_only_offsets_that_this_process_has_not_seen_come_are_asked_for() -> None:
    live = _started()

    asked = unseen(live.judge())

    assert set(asked.identities) == {("billing", "orders", 0), ("audit", "orders", 2)}
    assert asked.question.groups == {"billing", "audit"}
    assert (asked.question.topics, asked.question.topic_ids) == (("orders",), ("id-orders",))
    places = dict(zip(asked.identities, asked.question.offset.tolist(), strict=True))
    assert places == {("billing", "orders", 0): 60, ("audit", "orders", 2): 90}


def test_what_the_stored_history_says_is_shown_from_the_next_round_on() -> None:
    live = _started()
    asked = unseen(live.judge())

    found = _answered(asked, NOON_MS - 100_000, NOON_MS - 80_000)
    live.monitor.append_times.seed(asked.answer(found, live.monitor.table))
    snapshot = live.judge()

    group = snapshot.group_index["billing"]
    row = int(snapshot.group.first[group])
    reason = TimeLagReason(snapshot.rows.time_lag_reason[row])
    assert (reason, reason.method) == (TimeLagReason.RECORDED, TimeLagMethod.STORED_HISTORY)
    assert snapshot.rows.time_lag_ms[row] == snapshot.data_ms - (NOON_MS - 90_000)
    assert snapshot.group.time_lag_ms[group] == snapshot.rows.time_lag_ms[row]
    assert unseen(snapshot).row.size == 0


def test_nothing_is_shown_of_what_the_stored_history_does_not_know() -> None:
    live = _started()
    asked = unseen(live.judge())

    live.monitor.append_times.seed(asked.answer(_answered(asked, -1, -1), live.monitor.table))

    assert live.monitor.append_times.stored is None


def test_an_answer_is_dropped_whose_group_was_forgotten_meanwhile() -> None:
    live = _started()
    asked = unseen(live.judge())
    live.monitor.forget("billing", None)

    stored = asked.answer(_answered(asked, NOON_MS - 2000, NOON_MS - 1000), live.monitor.table)

    assert stored.offset.tolist() == [90]
    live.monitor.append_times.seed(stored)
    live.monitor.forget("audit", None)
    live.judge()
    assert live.monitor.append_times.stored is None


def test_topics_whose_id_is_not_known_are_not_asked_for() -> None:
    live = Live()
    live.topics(orders=1)
    live.wait(1)
    live.commit(("billing", "orders", 0, 60))
    live.wait(1)
    snapshot = live.judge()
    object.__setattr__(snapshot.topics, "ids", ("",))

    assert unseen(snapshot).row.size == 0
