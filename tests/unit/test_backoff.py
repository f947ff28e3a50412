"""Delays between attempts."""

from lagwatch.backoff import Backoff


def test_waiting_times_double_with_jitter_up_to_a_cap_and_begin_anew() -> None:
    backoff = Backoff(first_s=1.0, longest_s=4.0)

    delays_s = [backoff.next_s() for _ in range(4)]
    backoff.reset()

    for delay_s, full_s in zip(delays_s, [1.0, 2.0, 4.0, 4.0], strict=True):
        assert full_s / 2 <= delay_s <= full_s
    assert backoff.next_s() <= 1.0


def test_a_receiver_that_names_a_delay_is_not_asked_earlier() -> None:
    backoff = Backoff(first_s=1.0, longest_s=4.0)

    assert backoff.delay_s(1, retry_after_s=120.0) == 120.0
    assert backoff.delay_s(10_000, retry_after_s=0.5) >= 2.0
