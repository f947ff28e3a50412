"""A real collector on a real broker: offsets that are committed in transactions."""

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from lagwatch.clock import SystemClock
from lagwatch.core.model import offsets_partition
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.ports.reports import Backlog, Commits, CommitsKnown, LogEnds, Topics
from tests.support.collecting import Row, Seen, collecting, settings
from tests.support.kafka import Transactions, commit, create_topic, neighbours, unique
from tests.support.waiting import eventually


def test_commits_of_aborted_transactions_never_count(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("group")
    transactions = Transactions(kafka)
    commit(kafka, group, topic, 3)
    for offset in (97, 98):
        transactions.begin(group, topic, offset)
        transactions.abort()

    with collecting(settings(kafka)) as seen:
        seen.wait_ready()
        transactions.begin(group, topic, 99)
        transactions.abort()
        commit(kafka, group, topic, 4)
        eventually(lambda: 4 in seen.offsets(group, topic), "the later commit arrives")

    assert seen.offsets(group, topic) == [3, 4]


def test_a_commit_counts_once_its_transaction_is_committed(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("group")
    transactions = Transactions(kafka)
    with collecting(settings(kafka)) as seen:
        seen.wait_ready()
        transactions.begin(group, topic, 5)

        transactions.commit()

        eventually(lambda: 5 in seen.offsets(group, topic), "the commit arrives")


def test_an_open_transaction_does_not_keep_the_backlog_from_being_read(
    kafka: EmbeddedKafka,
) -> None:
    topic, group = create_topic(kafka), unique("group")
    commit(kafka, group, topic, 3)
    transactions = Transactions(kafka)
    transactions.begin(group, topic, 5)
    try:
        with collecting(settings(kafka)) as seen:
            seen.wait_ready()

            backlog = seen.last(Backlog)
            assert backlog is not None
            assert backlog.read == backlog.total
            assert seen.offsets(group, topic) == [3]
    finally:
        transactions.abort()


def test_markers_at_the_end_of_the_offsets_topic_do_not_keep_it_from_being_ready(
    kafka: EmbeddedKafka,
) -> None:
    topic, group = create_topic(kafka), unique("group")
    transactions = Transactions(kafka)
    transactions.begin(group, topic, 5)
    transactions.abort()

    with collecting(settings(kafka)) as seen:
        seen.wait_ready()

    assert seen.offsets(group, topic) == []


def known_until(seen: Seen, group: str) -> int:
    """The instant up to which all commits of a group are known; -1 never."""
    known = seen.last(CommitsKnown)
    if known is None:
        return -1
    return int(known.until_ms[offsets_partition(group, known.until_ms.size)])


def test_commits_are_known_up_to_a_round_that_began_after_them(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("group")
    with collecting(settings(kafka)) as seen:
        seen.wait_ready()
        for offset in range(5):
            commit(kafka, group, topic, offset)
        done_ms = SystemClock().now_ms()

        eventually(lambda: known_until(seen, group) >= done_ms, "the commits are known")

    earlier = Seen(seen.supervisor)
    for report in seen.reports:
        earlier.reports.append(report)
        if known_until(earlier, group) >= done_ms:
            break
    assert earlier.offsets(group, topic) == list(range(5)), "they were sent before"


def test_markers_at_the_end_do_not_keep_commits_from_being_known(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("group")
    transactions = Transactions(kafka)
    with collecting(settings(kafka)) as seen:
        seen.wait_ready()
        transactions.begin(group, topic, 5)
        transactions.abort()
        ended_ms = SystemClock().now_ms()

        eventually(lambda: known_until(seen, group) > ended_ms, "the reader passes the markers")


def test_the_filter_may_hide_the_offsets_topic(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka, "wanted"), unique("group")
    with collecting(settings(kafka, topic_allow="^wanted")) as seen:
        commit(kafka, group, topic, 1)
        before_ms = SystemClock().now_ms()

        eventually(lambda: known_until(seen, group) > before_ms, "its log ends are asked for")
        topics, ends = seen.of(Topics), seen.of(LogEnds)

    assert all("__consumer_offsets" not in each.names for each in topics)
    rows = {each.version: int(each.partitions.sum()) for each in topics}
    assert all(each.log_end.size == rows[each.version] for each in ends)


def test_polled_offsets_are_known_up_to_the_start_of_the_round(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("group")
    commit(kafka, group, topic, 1)
    before_ms = SystemClock().now_ms()
    with collecting(settings(kafka, commits="admin")) as seen:
        eventually(lambda: known_until(seen, group) >= before_ms, "a round is complete")

        known = seen.last(CommitsKnown)
    assert known is not None
    assert known.until_ms.size == 1


def newest(seen: Seen, group: str, topic: str) -> Row | None:
    """The commit that counts: that of the highest order, and of those the one reported last."""
    rows = seen.of_partition(group, topic)
    return max(enumerate(rows), key=lambda each: (each[1].order, each[0]))[1] if rows else None


def newest_offset(seen: Seen, group: str, topic: str) -> int | None:
    row = newest(seen, group, topic)
    return None if row is None else row.offset


def as_kafka_says(kafka: EmbeddedKafka, group: str) -> list[int]:
    admin = AdminClient(kafka.admin_config())
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    return [each.offset for each in asked[group].result(30).topic_partitions or []]


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_an_open_transaction_holds_no_other_group_back(kafka: EmbeddedKafka, end: str) -> None:
    topic, group = create_topic(kafka), unique("group")
    commit(kafka, group, topic, 3)
    others = neighbours(kafka, group, 50)
    for other in others[1:]:
        commit(kafka, other, topic, 1)
    transactions = Transactions(kafka)
    for number in range(12):
        transactions.begin(group, topic, 100 + number)
        transactions.abort()
    with collecting(settings(kafka)) as seen:
        eventually(lambda: known_until(seen, group) >= 0, "all that was committed is known")

        transactions.begin(group, topic, 50)
        try:
            for other in others:
                commit(kafka, other, topic, 2)
            done_ms = SystemClock().now_ms()
            eventually(
                lambda: all(newest_offset(seen, each, topic) == 2 for each in others),
                "the commits of other groups arrive while the transaction is open",
            )
            eventually(
                lambda: known_until(seen, group) >= done_ms,
                "and all of them are known",
            )
            known = seen.last(CommitsKnown)
            assert known is not None
            assert known.polled == (offsets_partition(group, known.until_ms.size),)
            assert as_kafka_says(kafka, group) == [3]
            assert newest_offset(seen, group, topic) == 3
            polled = newest(seen, others[0], topic)
            assert polled is not None
            assert not polled.exact
            assert polled.only_change
            assert done_ms >= polled.after_ms >= 0, "it came after the last that was known"
        finally:
            transactions.commit() if end == "commit" else transactions.abort()

        ended_ms = SystemClock().now_ms()
        after = 50 if end == "commit" else 3
        eventually(lambda: known_until(seen, group) >= ended_ms, "the reader has caught up")
        eventually(lambda: no_longer_polled(seen), "nothing is polled any more")
        commit(kafka, others[0], topic, 4)
        eventually(lambda: newest_offset(seen, others[0], topic) == 4, "commits are read again")

    assert as_kafka_says(kafka, group) == [after]
    assert newest_offset(seen, group, topic) == after
    assert all(newest_offset(seen, each, topic) == 2 for each in others[1:])
    row = newest(seen, others[0], topic)
    assert row is not None
    assert row.exact
    assert all(each.beside is not each.exact_times for each in seen.of(Commits))


def no_longer_polled(seen: Seen) -> bool:
    known = seen.last(CommitsKnown)
    return known is not None and not known.polled


def test_a_short_transaction_polls_nothing(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka), unique("group")
    transactions = Transactions(kafka)
    with collecting(settings(kafka)) as seen:
        seen.wait_ready()
        for offset in range(20):
            transactions.begin(group, topic, offset)
            transactions.commit()
        ended_ms = SystemClock().now_ms()

        eventually(lambda: known_until(seen, group) >= ended_ms, "all commits are known")

    assert seen.offsets(group, topic) == list(range(20))
    assert all(row.exact for row in seen.of_partition(group, topic))


def test_an_offset_that_is_deleted_while_a_transaction_is_open_leaves(
    kafka: EmbeddedKafka,
) -> None:
    topic, group = create_topic(kafka), unique("group")
    commit(kafka, group, topic, 3)
    (other,) = neighbours(kafka, group, 1)
    admin = AdminClient(kafka.admin_config())
    commit(kafka, other, topic, 1)
    transactions = Transactions(kafka)
    with collecting(settings(kafka)) as seen:
        seen.wait_ready()
        transactions.begin(group, topic, 50)
        try:
            admin.delete_consumer_groups([other])[other].result(30)

            eventually(lambda: newest_offset(seen, other, topic) == -1, "it leaves")
        finally:
            transactions.abort()
