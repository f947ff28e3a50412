"""Why a group is gone: deleted, expired or forgotten are told apart by its last signs of life."""

from dataclasses import replace

import pytest

from lagwatch.core.departure import DEFAULT_RETENTION_MS, Departure, LastSeen, departure
from lagwatch.notify.words import details, headline
from tests.support.alert_situations import situations

HOUR_MS = 3_600_000
NOW_MS = 1_800_000_000_000
GONE = situations()["gone"].notices[0]


def went(
    alive_h: float,
    *,
    commit_h: float | None = None,
    kept_h: float | None = 48,
    forget_h: float = 999,
) -> Departure:
    """How a group went whose last member was seen `alive_h` hours before."""
    commit_h = alive_h if commit_h is None else commit_h
    return departure(
        LastSeen(
            commit_ms=NOW_MS - round(commit_h * HOUR_MS), alive_ms=NOW_MS - round(alive_h * HOUR_MS)
        ),
        NOW_MS,
        retention_ms=None if kept_h is None else round(kept_h * HOUR_MS),
        forget_ms=round(forget_h * HOUR_MS),
    )


class TestDeparture:
    def test_a_group_that_lived_within_the_retention_was_deleted(self) -> None:
        assert went(1) is Departure.DELETED
        assert went(47.9) is Departure.DELETED

    def test_a_member_keeps_old_commits_from_expiring(self) -> None:
        assert went(1, commit_h=60) is Departure.DELETED

    def test_one_that_was_silent_for_the_retention_expired(self) -> None:
        assert went(48) is Departure.EXPIRED
        assert went(500) is Departure.EXPIRED

    def test_about_the_retention_it_is_not_known(self) -> None:
        assert went(48 - 30 / 3600) is Departure.UNKNOWN

    def test_without_the_brokers_setting_it_is_likely_by_the_default(self) -> None:
        days = DEFAULT_RETENTION_MS / HOUR_MS

        assert went(60, kept_h=None) is Departure.LIKELY_DELETED
        assert went(days, kept_h=None) is Departure.LIKELY_EXPIRED

    def test_what_lagwatch_itself_drops_is_not_called_deleted(self) -> None:
        assert went(0, commit_h=24, forget_h=24) is Departure.FORGOTTEN
        assert went(0, commit_h=23.9, forget_h=24) is Departure.DELETED

    @pytest.mark.parametrize("last", [None, LastSeen(commit_ms=-1, alive_ms=NOW_MS)])
    def test_without_a_sign_of_life_it_is_not_known(self, last: LastSeen | None) -> None:
        found = departure(last, NOW_MS, retention_ms=HOUR_MS, forget_ms=HOUR_MS)

        assert found is Departure.UNKNOWN


WORDS = {
    Departure.DELETED: ("DELETED", "were deleted: its last commit or member was seen 3 min 30 s"),
    Departure.LIKELY_DELETED: ("LIKELY DELETED", "were most likely deleted"),
    Departure.EXPIRED: ("EXPIRED", "Kafka expired the offsets of the group"),
    Departure.LIKELY_EXPIRED: ("LIKELY EXPIRED", "have most likely expired"),
    Departure.FORGOTTEN: ("FORGOTTEN", "Kafka may still hold it"),
    Departure.UNKNOWN: ("GONE", "it was deleted, or its offsets have expired"),
}


@pytest.mark.parametrize("how", list(Departure))
def test_each_has_a_word_and_a_sentence(how: Departure) -> None:
    signs = {
        "gone": how.value,
        "gone_ms": GONE.at_ms,
        "last_sign_ms": GONE.at_ms - 210_000,
        "offsets_retention_s": 86_400,
    }
    notice = replace(GONE, verdict={**GONE.verdict, **signs})
    word, sentence = WORDS[how]

    assert headline(notice).startswith(f"{word}: billing on prod")
    said = "\n".join(details(notice))
    assert sentence in said
    assert "did not catch up" in said
    assert "OK again" not in headline(notice)
