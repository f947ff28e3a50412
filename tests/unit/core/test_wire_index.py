"""The hash table behind the interning of keys says what a dictionary says."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.wire.index import ABSENT, KeyIndex


def names(numbers: Iterable[int]) -> list[bytes]:
    return [f"key-{number}".encode() for number in numbers]


def filled(count: int) -> KeyIndex:
    index = KeyIndex()
    for number, key in enumerate(names(range(count))):
        index.put(key, number)
    return index


def test_what_was_put_is_found_and_nothing_else() -> None:
    index = filled(20_000)

    found = index.find(names(range(30_000)))

    assert found[:20_000].tolist() == list(range(20_000))
    assert set(found[20_000:].tolist()) == {ABSENT}


def test_a_key_missing_altogether_is_absent() -> None:
    assert filled(3).find([None, b""]).tolist() == [ABSENT, ABSENT]


def test_one_key_is_found_before_and_after_it_is_settled() -> None:
    index = filled(700)

    before = [index.get(key) for key in names([5, 699, 700])]
    index.find([])
    after = [index.get(key) for key in names([5, 699, 700])]

    assert before == after == [5, 699, None]


def test_only_keys_put_since_the_last_search_are_fresh() -> None:
    index = filled(1)
    index.find([])
    index.put(b"new", 1)

    assert (index.fresh(b"key-0"), index.fresh(b"new")) == (None, 1)


def test_what_is_removed_leaves_the_others_where_they_can_be_found() -> None:
    index = filled(5_000)

    index.remove(range(0, 5_000, 2))

    expected = [ABSENT if number % 2 == 0 else number for number in range(5_000)]
    assert index.find(names(range(5_000))).tolist() == expected


def test_room_is_given_back_with_what_is_removed() -> None:
    index = filled(50_000)

    index.remove(range(49_990))
    index.put(b"new", 50_000)

    assert index.find([b"new", b"key-49995", b"key-1"]).tolist() == [50_000, 49_995, ABSENT]


steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "find", "remove"]), st.lists(st.integers(0, 2_000), max_size=400)
    ),
    max_size=12,
)


@given(steps)
def test_any_history_ends_as_that_of_a_dictionary(history: list[tuple[str, list[int]]]) -> None:
    index, reference = KeyIndex(), dict[bytes, int]()
    for step, numbers in history:
        if step == "put":
            for key, number in zip(names(numbers), numbers, strict=True):
                if index.get(key) is None:
                    index.put(key, number)
                    reference[key] = number
        elif step == "remove":
            index.remove(numbers)
            reference = {key: old for key, old in reference.items() if old not in set(numbers)}
        else:
            index.find([])

    every = names(range(2_001))
    assert index.find(every).tolist() == [reference.get(key, ABSENT) for key in every]
