"""How commands write instants."""

from zoneinfo import ZoneInfo

import pytest

from lagwatch.cli.output import local_time


@pytest.mark.parametrize(
    ("at_ms", "shown"),
    [
        (None, "-"),
        (0, "1970-01-01 01:00:00 CET"),
        (1_800_000_000_000, "2027-01-15 09:00:00 CET"),
        (9_000_000_000_000_000, "9000000000000000 ms"),
        (-1, "-1 ms"),
    ],
)
def test_an_instant_beyond_all_calendars_is_shown_as_its_number(
    at_ms: int | None, shown: str
) -> None:
    zone = ZoneInfo("Europe/Berlin")

    text = local_time(at_ms, zone)

    assert text == shown
