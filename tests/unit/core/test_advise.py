"""How many consumers and partitions are needed, and when nobody can know."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.advise import (
    MIN_BUCKETS,
    Advice,
    AdviceKind,
    Load,
    advise,
    needed_consumers,
    rate,
)

_RATES = st.floats(min_value=0.001, max_value=1e9)
_HEADROOMS = st.floats(min_value=0.05, max_value=1.0)


def _load(**changes) -> Load:
    values = {
        "peak_per_s": 1850.0,
        "buckets": 2016,
        "rate_per_s": 420.0,
        "saturated_buckets": 38,
        "unowned_buckets": 0,
        "partly_buckets": 0,
        "read_share": 1.0,
        "partitions": 6,
        "consumers": 4,
    }
    return Load(**values | changes)


def _advised(**changes) -> Advice:
    return advise(_load(**changes), headroom=0.7)


def test_more_consumers_than_partitions_needs_partitions() -> None:
    advice = _advised()

    assert (advice.kind, advice.needed) == (AdviceKind.ADD_PARTITIONS, 7)
    assert advice.reason == (
        "At peak 1,850 messages/s are produced (95th percentile of 2,016 five-minute rates); one "
        "consumer does 420 messages/s (median of 38 buckets in which it was saturated). To use it "
        "to at most 70%, 7 consumers are needed; there are 4 consumers and 6 partitions, and a "
        "partition has one consumer at a time: make it 7 partitions and 7 consumers."
    )


def test_with_partitions_to_spare_consumers_are_started() -> None:
    advice = _advised(partitions=12)

    assert (advice.kind, advice.needed) == (AdviceKind.ADD_CONSUMERS, 7)
    assert advice.reason.endswith("there are 4 consumers and 12 partitions: start 3 more.")


def test_what_suffices_is_said_to_suffice() -> None:
    advice = _advised(partitions=12, consumers=7)

    assert (advice.kind, advice.needed) == (AdviceKind.ENOUGH, 7)
    assert advice.reason.endswith("there are 7 consumers and 12 partitions: enough.")


def test_an_unknown_number_of_consumers_is_not_taken_for_none() -> None:
    advice = _advised(partitions=12, consumers=None)

    assert advice.kind is AdviceKind.ENOUGH
    assert "the number of consumers is unknown" in advice.reason


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"peak_per_s": None}, "it is not known how much was produced"),
        ({"peak_per_s": 0.0}, "nothing was produced at peak, in 2,016 five-minute buckets"),
        (
            {"rate_per_s": None, "saturated_buckets": 0},
            "so what one can do was not seen. 4 consumers kept up with a peak of 1,850 messages/s.",
        ),
        (
            {"rate_per_s": None, "saturated_buckets": 0, "consumers": 0},
            "not seen. The group kept up with a peak of 1,850 messages/s, and has no consumers now",
        ),
        (
            {"rate_per_s": None, "saturated_buckets": 0, "unowned_buckets": 9},
            "messages waited all the time in 9 buckets of five minutes, but it was unknown",
        ),
        (
            {"rate_per_s": None, "saturated_buckets": 0, "partly_buckets": 12},
            "in 12 buckets of five minutes messages waited in some partitions of a consumer",
        ),
        (
            {"rate_per_s": None, "saturated_buckets": 0, "read_share": 0.0},
            "The group read 0% of what was produced all the same: it stood still",
        ),
        (
            {"rate_per_s": None, "saturated_buckets": 0, "read_share": None},
            "How much was read is not known.",
        ),
        (
            {"saturated_buckets": MIN_BUCKETS - 1},
            f"saturated in only {MIN_BUCKETS - 1} buckets of five minutes, and {MIN_BUCKETS} are",
        ),
    ],
)
def test_when_the_data_cannot_tell_it_says_why(changes, why) -> None:
    advice = _advised(**changes)

    assert (advice.kind, advice.needed) == (AdviceKind.UNTOLD, None)
    assert advice.reason.startswith("The data cannot tell: ")
    assert why in advice.reason


@given(_RATES, _RATES, _HEADROOMS)
def test_it_is_the_least_number_that_is_enough(peak, capacity, headroom) -> None:
    needed = needed_consumers(peak, capacity, headroom)

    assert needed * capacity * headroom >= peak * (1 - 0.0051)
    assert needed == 1 or (needed - 1) * capacity * headroom < peak


@given(_RATES, _RATES, _RATES, _HEADROOMS)
def test_more_load_never_needs_less(capacity, low, more, headroom) -> None:
    assert needed_consumers(low + more, capacity, headroom) >= needed_consumers(
        low, capacity, headroom
    )
    assert needed_consumers(low, capacity + more, headroom) <= needed_consumers(
        low, capacity, headroom
    )


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_a_whole_quotient_is_not_rounded_up(needed, capacity) -> None:
    assert needed_consumers(needed * capacity * 0.7, capacity, 0.7) == needed


def test_noise_of_measured_rates_makes_no_consumer_more() -> None:
    assert needed_consumers(350.1156, 100.0031, 0.7) == 5
    assert needed_consumers(350.1156, 100.0031, 1.0) == 4
    assert needed_consumers(352.0, 100.0, 0.7) == 6


@given(
    st.builds(
        Load,
        peak_per_s=st.none() | st.floats(0, 1e12),
        buckets=st.integers(0, 10**6),
        rate_per_s=st.none() | st.floats(0, 1e12),
        saturated_buckets=st.integers(0, 10**6),
        unowned_buckets=st.integers(0, 10**6),
        partly_buckets=st.integers(0, 10**6),
        read_share=st.none() | st.floats(0, 10),
        partitions=st.integers(1, 10**6),
        consumers=st.none() | st.integers(0, 10**6),
    )
)
def test_it_always_answers_with_a_sentence(load) -> None:
    advice = advise(load, headroom=0.7)

    assert advice.reason.endswith(".")
    assert (advice.needed is None) == (advice.kind is AdviceKind.UNTOLD)
    if advice.kind is AdviceKind.ADD_PARTITIONS:
        assert advice.needed is not None
        assert advice.needed > load.partitions


def test_rates_are_reported_with_three_figures() -> None:
    shown = [rate(each) for each in (12345.6, 100.4, 42.55, 0.03141, 0.0, None)]

    assert shown == ["12,346", "100", "42.5", "0.0314", "0", "unknown"]
