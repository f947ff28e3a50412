"""The interning table: which ids keys get, and what the filter and forgetting do to them."""

from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.wire import DENIED, CommitKeys, decode
from tests.support.wire import encode_offset_key, encode_offset_value

VALUE = encode_offset_value(5, 6)


def ids(table: CommitKeys, *keys: bytes) -> list[int]:
    decoded = decode(keys, [VALUE] * len(keys), range(len(keys)), table)
    assert decoded.malformed == {}
    return [int(key_id) for key_id in decoded.key]


def key(group: str, topic: str, partition: int, *, version: int = 1) -> bytes:
    return encode_offset_key(group, topic, partition, version=version)


def test_ids_are_dense_in_the_order_first_seen() -> None:
    table = CommitKeys()

    seen = ids(table, key("b", "t", 1), key("a", "t", 0), key("b", "t", 1), key("b", "t", 0))

    assert seen == [0, 1, 0, 2]
    assert len(table) == 3
    assert table.since(0) == (("b", "a", "b"), ("t", "t", "t"), (1, 0, 0))


def test_only_the_ids_of_later_batches_are_announced_again() -> None:
    table = CommitKeys()
    ids(table, key("a", "t", 0))
    first_new = len(table)

    ids(table, key("a", "t", 0), key("a", "u", 3))

    assert table.since(first_new) == (("a",), ("u",), (3,))
    assert table.since(len(table)) == ((), (), ())


def test_key_version_0_names_the_same_partition_as_version_1() -> None:
    old_first = ids(CommitKeys(), key("g", "t", 2, version=0), key("g", "t", 2))
    new_first = ids(CommitKeys(), key("g", "t", 2), key("g", "t", 2, version=0))

    assert old_first == new_first == [0, 0]


def test_bytes_behind_the_partition_do_not_make_another_key() -> None:
    assert ids(CommitKeys(), key("g", "t", 2) + b"tail", key("g", "t", 2)) == [0, 0]


def test_a_partition_is_no_matter_which_partition_of_its_topic_came_first() -> None:
    table = CommitKeys()

    ids(table, *(key("g", "t", number) for number in (70_000, 0, 2**31 - 1)))

    assert table.since(0)[2] == (70_000, 0, 2**31 - 1)


def test_bytes_that_are_not_utf_8_become_a_replacement_as_in_java() -> None:
    table = CommitKeys()

    ids(table, b"\0\1\0\1\xff\0\1t\0\0\0\0")

    assert table[0] == ("\N{REPLACEMENT CHARACTER}", "t", 0)


def test_denied_commits_get_no_id_and_no_row() -> None:
    table = CommitKeys(lambda group, topic: group != "secret" and topic != "noise")
    keys = [key("secret", "t", 0), key("g", "noise", 0), key("g", "t", 0), key("secret", "t", 1)]

    decoded = decode(keys, [VALUE, None, VALUE, b"junk"], range(4), table)

    assert table.find(keys).tolist() == [DENIED, DENIED, 0, DENIED]
    assert decoded.row.tolist() == [2]
    assert decoded.malformed == {}
    assert table.since(0) == (("g",), ("t",), (0,))


def test_the_filter_is_not_asked_again_about_what_was_denied() -> None:
    asked: list[tuple[str, str]] = []

    def deny(group: str, topic: str) -> bool:
        asked.append((group, topic))
        return False

    table = CommitKeys(deny)

    for _ in range(3):
        ids(table, key("g", "t", 0), key("g", "t", 1))

    assert asked == [("g", "t")]


def test_a_dropped_key_comes_back_under_a_new_id() -> None:
    table = CommitKeys()
    both = [key("g", "t", 0), key("g", "t", 1), key("g", "t", 0, version=0)]
    ids(table, *both)

    table.drop([0])

    assert ids(table, *both) == [2, 1, 2]
    assert table[0] == table[2] == ("g", "t", 0)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from("tu"),
            st.integers(0, 3),
            st.sampled_from([0, 1]),
        )
    )
)
def test_one_id_for_each_triple_however_it_is_met(met: list[tuple[str, str, int, int]]) -> None:
    table = CommitKeys()

    given_ids = ids(table, *(key(g, t, p, version=version) for g, t, p, version in met))

    assert [table[each] for each in given_ids] == [(g, t, p) for g, t, p, _ in met]
    assert len(table) == len({triple[:3] for triple in met})


def test_more_pairs_than_are_remembered_change_no_id() -> None:
    table = CommitKeys(most_pairs=2)
    met = [(f"g{number % 5}", "t", number // 5) for number in range(25)]

    given_ids = ids(table, *(key(*triple) for triple in met))

    assert given_ids == list(range(25))
    assert [table[each] for each in given_ids] == met


def test_a_key_that_was_only_heard_of_gets_the_id_that_its_record_gets_later() -> None:
    table = CommitKeys()
    heard = table.id_of("g", "t", 3)

    assert heard == table.id_of("g", "t", 3)
    assert table.find([encode_offset_key("g", "t", 3)]).tolist() == [heard]
    assert table.since(heard) == (("g",), ("t",), (3,))


def test_ids_are_found_by_group() -> None:
    table = CommitKeys()
    for group, partition in (("g", 0), ("h", 0), ("g", 1)):
        table.id_of(group, "t", partition)

    assert table.by_group(["g", "unknown"]) == {"g": [0, 2]}
    assert list(table.groups) == ["g", "h"]
