"""Parts of the service that fail are begun again, named, and end no other part."""

import asyncio
from collections.abc import Callable
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from lagwatch.parts import Parts
from tests.support.step_clock import StepClock


class Part:
    """Raises at its first runs, after so many seconds each; then it ends."""

    def __init__(self, clock: StepClock, *, lives_s: list[float]) -> None:
        self.clock = clock
        self.lives_s = lives_s
        self.began_s: list[float] = []
        self.problems: list[str] = []
        self.problem: Callable[[str], str] = str

    async def run(self) -> None:
        self.began_s.append(self.clock.monotonic_s())
        self.problems.append(self.problem("this part"))
        if self.lives_s:
            await self.clock.sleep(self.lives_s.pop(0))
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.work())

    async def work(self) -> None:
        raise KeyError("an-offset")


def kept(lives_s: list[float]) -> tuple[Parts, Part, StepClock]:
    clock = StepClock()
    parts = Parts(clock)
    part = Part(clock, lives_s=lives_s)
    part.problem = parts.problem
    asyncio.run(parts.keep("this part", part.run))
    return parts, part, clock


def test_a_part_that_raises_is_begun_again_after_delays_that_grow() -> None:
    _, part, _ = kept([0.0] * 9)

    delays_s = [after - before for before, after in pairwise(part.began_s)]

    assert len(delays_s) == 9
    for number, delay_s in enumerate(delays_s):
        assert min(60, 2**number) / 2 <= delay_s <= min(60, 2**number)


def test_a_part_that_failed_is_named_until_it_has_run_for_long() -> None:
    parts, part, clock = kept([0.0, 0.0])

    assert part.problems[0] == ""
    assert part.problems[1].startswith("this part failed 1 time (KeyError); lagwatch tries again")
    assert part.problems[2].startswith("this part failed 2 times (KeyError)")
    assert "an-offset" not in parts.problem("this part")
    assert parts.failures("this part") == 2
    clock.pass_s(298)
    assert parts.problems() == (parts.problem("this part"),)
    clock.pass_s(3)
    assert parts.problem("this part") == ""
    assert parts.problems() == ()
    assert parts.failures("this part") == 0


def test_failures_long_ago_do_not_count() -> None:
    parts, part, _ = kept([0.0, 0.0, 301.0, 0.0])

    assert part.problems[3].startswith("this part failed 1 time ")
    assert part.began_s[3] - part.began_s[2] <= 301 + 1
    assert parts.failures("this part") == 2


def test_the_log_has_the_traceback_of_an_error_once() -> None:
    with capture_logs() as logs:
        kept([0.0] * 4)

    (line,) = logs
    assert line["event"] == "part_failed"
    assert line["part"] == "this part"
    assert line["exc_info"].exceptions[0].args == ("an-offset",)


def test_a_call_that_the_next_round_repeats_is_named_until_it_succeeds() -> None:
    parts, works = Parts(StepClock()), list[int]()

    for _ in range(3):
        parts.attempt("recording", works.pop)
    assert parts.problem("recording").startswith("recording failed 3 times (IndexError)")
    works.append(1)
    parts.attempt("recording", works.pop)

    assert parts.problem("recording") == ""


def test_parts_are_found_by_the_beginning_of_their_names() -> None:
    parts = Parts(StepClock())
    for part in ("recording of events", "recording", "alerting"):
        parts.attempt(part, list[int]().pop)

    assert [each.split(" failed")[0] for each in parts.problems(of="recording")] == [
        "recording",
        "recording of events",
    ]


def test_a_part_that_is_cancelled_is_not_begun_again() -> None:
    async def cancelled() -> None:
        parts = Parts(StepClock())
        task = asyncio.create_task(parts.keep("this part", asyncio.Event().wait))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert parts.problems() == ()

    asyncio.run(cancelled())
