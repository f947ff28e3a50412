"""When pollers ask, what they report, and what they do when refused."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import numpy as np
import pytest
from structlog.testing import capture_logs

from lagwatch.config import ClusterSettings
from lagwatch.core.model import EpochMs, GroupInfo
from lagwatch.core.wire import GroupProtocol, GroupRecord
from lagwatch.errors import SourceError
from lagwatch.pollers.committed import CommittedPoller
from lagwatch.pollers.facts import Facts, sentences
from lagwatch.pollers.filters import Filters
from lagwatch.pollers.groups import GroupPoller
from lagwatch.pollers.known import KeyRows, LastOffsets
from lagwatch.pollers.log_ends import LogEndPoller
from lagwatch.pollers.loop import PollLoop, PollPace, Wake
from lagwatch.pollers.offsets_topic import HOLD_S, Tombstones
from lagwatch.pollers.quiet import (
    FEW_PARTITIONS,
    QuietPartitions,
    rests_after_s,
    whole_every_s,
)
from lagwatch.pollers.surroundings import Surroundings
from lagwatch.pollers.topics import TopicPoller
from lagwatch.ports.kafka import (
    GroupDescriptions,
    GroupListing,
    ListedGroup,
)
from lagwatch.ports.reports import (
    CollectorFacts,
    Commits,
    CommitsKnown,
    GroupsGone,
    GroupsSeen,
    LogEnds,
    Report,
    SourceHealth,
    SourceKind,
    Topics,
)
from tests.support.kafka_doubles import InMemoryGroups, InMemoryLogEnds, InMemoryTopics

R = TypeVar("R", bound=Report)


class EnoughError(Exception):
    """Ends a loop that runs for ever."""


class StepClock:
    """Time that only passes while somebody sleeps; ends the test after `naps` of them."""

    def __init__(self, naps: int = 1_000) -> None:
        self.slept_s: list[float] = []
        self._at_s = 1_000.0
        self._naps = naps

    def now_ms(self) -> EpochMs:
        return EpochMs(round(self._at_s * 1000))

    def monotonic_s(self) -> float:
        return self._at_s

    async def sleep(self, delay_s: float) -> None:
        self.slept_s.append(delay_s)
        self._at_s += delay_s
        if len(self.slept_s) >= self._naps:
            raise EnoughError
        await asyncio.sleep(0)


class Outbox:
    """Keeps reports."""

    def __init__(self) -> None:
        self.reports: list[Report] = []

    async def __call__(self, report: Report) -> None:
        self.reports.append(report)

    def of(self, kind: type[R]) -> list[R]:
        return [each for each in self.reports if isinstance(each, kind)]


class Scripted:
    """A poller whose rounds end as the test says."""

    source = SourceKind.TOPICS

    def __init__(self, *rounds: Sequence[str] | SourceError) -> None:
        self._rounds = list(rounds)

    async def poll_once(self) -> Sequence[str]:
        outcome = self._rounds.pop(0) if len(self._rounds) > 1 else self._rounds[0]
        if isinstance(outcome, SourceError):
            raise outcome
        return outcome


def refusal(kind: str = "timeout", message: str = "no answer") -> SourceError:
    return SourceError(cluster="c", kind=kind, message=message)


def run_loop(poller: Scripted, clock: StepClock, outbox: Outbox, interval_s: float = 60.0) -> None:
    loop = PollLoop(poller, pace=PollPace(interval_s=interval_s), clock=clock, send=outbox)
    with pytest.raises(EnoughError):
        asyncio.run(loop.run())


def test_a_refused_round_is_reported_and_retried_with_back_off() -> None:
    clock, outbox = StepClock(naps=3), Outbox()

    run_loop(Scripted(refusal()), clock, outbox)

    first, second, third = clock.slept_s
    assert first <= 0.5
    assert second <= 1.0
    assert third <= 2.0
    reported = outbox.of(SourceHealth)
    assert (reported[0].ok, reported[0].error_kind, reported[0].message) == (
        False,
        "timeout",
        "no answer",
    )


def test_after_a_good_round_the_interval_holds_again() -> None:
    clock, outbox = StepClock(naps=3), Outbox()

    run_loop(Scripted(refusal(), ()), clock, outbox)

    assert clock.slept_s[1:] == [60.0, 60.0]
    assert [each.ok for each in outbox.of(SourceHealth)] == [False, True, True]


def test_a_round_that_failed_in_part_is_reported_and_not_hurried() -> None:
    clock, outbox = StepClock(naps=1), Outbox()

    run_loop(Scripted(["broker 2 is silent"]), clock, outbox)

    (reported,) = outbox.of(SourceHealth)
    assert (reported.ok, reported.error_kind, reported.message) == (
        False,
        "partial",
        "broker 2 is silent",
    )
    assert clock.slept_s == [60.0]


def test_a_loop_gives_up_on_the_kinds_it_was_set_to() -> None:
    loop = PollLoop(
        Scripted(refusal("authorization")),
        pace=PollPace(interval_s=1.0),
        clock=StepClock(),
        send=Outbox(),
        give_up_on=frozenset({"authorization"}),
    )

    with pytest.raises(SourceError) as caught:
        asyncio.run(loop.run())

    assert caught.value.kind == "authorization"


def tombstone(group: str, protocol: GroupProtocol) -> GroupRecord:
    return GroupRecord(group=group, order=5, protocol=protocol, removed=True, generation=None)


def written(group: str, protocol: GroupProtocol) -> GroupRecord:
    return GroupRecord(group=group, order=6, protocol=protocol, removed=False, generation=1)


def test_a_group_tombstone_counts_after_a_moment() -> None:
    tombstones = Tombstones()
    tombstones.add([tombstone("g", GroupProtocol.CLASSIC)], now_s=10.0)

    assert tombstones.due(now_s=10.0 + HOLD_S / 2) is None
    assert tombstones
    assert tombstones.due(now_s=10.0 + HOLD_S) == GroupsGone(groups=("g",), orders=(5,))
    assert not tombstones


def test_a_group_that_goes_over_to_the_other_protocol_stays() -> None:
    tombstones = Tombstones()
    tombstones.add(
        [
            tombstone("to-kip-848", GroupProtocol.CLASSIC),
            written("to-kip-848", GroupProtocol.CONSUMER),
            tombstone("to-classic", GroupProtocol.CONSUMER),
            written("to-classic", GroupProtocol.CLASSIC),
        ],
        now_s=0.0,
    )

    assert tombstones.due(now_s=HOLD_S) is None


def test_a_group_that_comes_back_under_its_own_protocol_was_gone_before() -> None:
    tombstones = Tombstones()
    tombstones.add(
        [tombstone("g", GroupProtocol.CLASSIC), written("g", GroupProtocol.CLASSIC)], now_s=0.0
    )

    assert tombstones.due(now_s=HOLD_S) == GroupsGone(groups=("g",), orders=(5,))


@pytest.mark.parametrize(
    ("allow", "deny", "kept"),
    [
        ("", "", {"orders", "orders-test", "billing"}),
        ("^orders", "", {"orders", "orders-test"}),
        ("", "test", {"orders", "billing"}),
        ("orders", "-test$", {"orders"}),
    ],
)
def test_a_name_is_kept_that_allow_finds_and_deny_does_not(
    allow: str, deny: str, kept: set[str]
) -> None:
    filters = Filters(ClusterSettings(bootstrap="b:1", group_allow=allow, group_deny=deny))

    assert {name for name in ("orders", "orders-test", "billing") if filters.group(name)} == kept


def test_a_group_with_an_endless_name_is_not_watched_and_the_log_says_so_once() -> None:
    filters = Filters(ClusterSettings(bootstrap="b:1"))

    with capture_logs() as logged:
        kept = [filters.commit("g" * size, "t") for size in (500, 501, 30_000)]

    assert kept == [True, False, False]
    assert [each["event"] for each in logged] == ["group_name_too_long"]


def test_many_names_are_summed_up() -> None:
    reported = sentences((f"t{number:02}" for number in range(25)), "{name} is hidden")

    assert len(reported) == 21
    assert reported[0] == "t00 is hidden"
    assert reported[-1] == "and 5 more like this"


class Desk:
    """A topic poller with its surroundings."""

    def __init__(self, source: InMemoryTopics, **options: str) -> None:
        self.clock, self.outbox, self.wake = StepClock(), Outbox(), Wake()
        self.facts = Facts(clock=self.clock, send=self.outbox, commits_mode="admin")
        self.filters = Filters(ClusterSettings.model_validate({"bootstrap": "b:1", **options}))
        self.topics = TopicPoller(
            source,
            filters=self.filters,
            facts=self.facts,
            clock=self.clock,
            send=self.outbox,
            wake=self.wake,
            on_change=lambda: None,
            interval_s=60.0,
        )

    def surroundings(self, groups: GroupPoller) -> Surroundings:
        return Surroundings(
            filters=self.filters,
            topics=self.topics,
            groups=groups,
            facts=self.facts,
            last=LastOffsets(),
            clock=self.clock,
            send=self.outbox,
        )

    def poll(self) -> list[Topics]:
        before = len(self.outbox.of(Topics))
        asyncio.run(_awaited(self.topics.poll_once))
        return self.outbox.of(Topics)[before:]


def called(desk: Desk) -> bool:
    """Was the poller of topics called for?"""

    async def soon() -> bool:
        waiting = asyncio.create_task(desk.wake.wait())
        await asyncio.sleep(0)
        return not waiting.cancel()  # what is done cannot be cancelled

    return asyncio.run(soon())


async def _awaited(call: Callable[[], Awaitable[object]]) -> None:
    await call()


def test_topics_are_reported_once_and_again_when_they_change() -> None:
    source = InMemoryTopics({"a": ("id-a", [1])})
    desk = Desk(source)

    assert [each.version for each in desk.poll()] == [1]
    assert desk.poll() == []
    source.topics["a"] = ("id-a", [1, 2])
    (grown,) = desk.poll()

    assert (grown.version, grown.partitions.tolist(), grown.leader.tolist()) == (2, [2], [1, 2])


def test_a_doubt_makes_all_ids_be_asked_for_and_a_new_one_is_reported() -> None:
    source = InMemoryTopics({"a": ("id-a", [1])})
    desk = Desk(source)
    desk.poll()

    source.topics["a"] = ("id-b", [1])
    assert desk.poll() == [], "ids are not asked for in every round"
    desk.topics.suspect(ids=True)
    (reported,) = desk.poll()

    assert reported.ids == ("id-b",)


def test_a_topic_that_is_filtered_out_takes_its_partitions_along() -> None:
    desk = Desk(
        InMemoryTopics({"a": ("1", [1, 2]), "b": ("2", [3]), "c": ("3", [4, 5])}), topic_deny="^b"
    )

    (reported,) = desk.poll()

    assert reported.names == ("a", "c")
    assert reported.leader.tolist() == [1, 2, 4, 5]
    assert desk.topics.partitions_of("b") == 1


def test_a_topic_that_commits_name_and_that_is_hidden_is_reported_with_its_acl() -> None:
    source = InMemoryTopics({"a": ("1", [1])})
    source.hidden = {"secret"}
    desk = Desk(source)
    desk.topics.mention(["a", "secret", "deleted"])

    desk.poll()

    facts = desk.outbox.of(CollectorFacts)[-1]
    assert len(facts.unseen) == 1
    assert "Allow DESCRIBE on TOPIC secret" in facts.unseen[0]


def test_a_topic_whose_right_is_taken_away_is_hidden_not_deleted() -> None:
    source = InMemoryTopics({"a": ("1", [1]), "b": ("2", [1])})
    desk = Desk(source)
    desk.poll()
    b = source.topics.pop("b")
    asyncio.run(_awaited(lambda: desk.clock.sleep(10)))  # facts are sent once a second

    source.hidden = {"b"}
    (taken_away,) = desk.poll()
    problems = asyncio.run(desk.topics.poll_once())
    unseen = desk.outbox.of(CollectorFacts)[-1].unseen
    unchanged = desk.poll()
    source.hidden = set()
    (deleted,) = desk.poll()
    source.topics["b"] = b
    (back,) = desk.poll()

    assert (taken_away.names, taken_away.hidden) == (("a",), frozenset("b"))
    assert any("Allow DESCRIBE on TOPIC b" in sentence for sentence in unseen)
    assert unchanged == []
    assert [problem.partition(",")[0] for problem in problems] == [
        "lagwatch may not describe topic b"
    ]
    assert asyncio.run(desk.topics.poll_once()) == ()
    assert (deleted.names, deleted.hidden) == (("a",), frozenset())
    assert (back.names, back.hidden) == (("a", "b"), frozenset())


def test_the_first_commit_of_the_present_id_is_reported() -> None:
    desk = Desk(InMemoryTopics({"a": ("new", [1]), "b": ("id-b", [1])}))
    for topic_id, at_ms in (("old", 1_000), ("new", 3_000), ("new", 2_000)):
        desk.topics.named("a", topic_id, at_ms)

    (reported,) = desk.poll()

    assert reported.first_commit_ms == {"a": 2_000}


def test_a_commit_that_names_another_id_makes_the_ids_be_asked_for() -> None:
    source = InMemoryTopics({"a": ("old", [1])})
    desk = Desk(source)
    desk.topics.named("a", "old", 1_000)
    desk.poll()
    source.topics["a"] = ("new", [1])

    desk.topics.named("a", "new", 2_000)
    (reported,) = desk.poll()

    assert reported.ids == ("new",)
    assert reported.first_commit_ms == {"a": 2_000}


def test_a_commit_of_a_topic_that_was_deleted_before_raises_no_doubt() -> None:
    source = InMemoryTopics({"a": ("new", [1])})
    desk = Desk(source)
    desk.topics.named("a", "new", 2_000)
    desk.poll()
    asked = len(source.asked)

    desk.topics.named("a", "old", 1_000)
    desk.poll()

    assert [each for each in source.asked[asked:] if each] == []


def log_end_poller(
    desk: Desk, ends: InMemoryLogEnds, quiet: QuietPartitions | None = None
) -> LogEndPoller:
    return LogEndPoller(
        ends,
        cluster="c",
        topics=desk.topics,
        clock=desk.clock,
        send=desk.outbox,
        quiet=quiet,
    )


def test_a_round_without_any_answer_is_a_failure_and_reports_nothing() -> None:
    desk, ends = Desk(InMemoryTopics({"a": ("1", [1, 1])})), InMemoryLogEnds()
    desk.poll()
    ends.ends = [-1, -1]

    with pytest.raises(SourceError, match="broker 1 is silent"):
        asyncio.run(_awaited(log_end_poller(desk, ends).poll_once))

    assert desk.outbox.of(LogEnds) == []


def test_a_log_that_got_shorter_makes_the_ids_be_asked_for() -> None:
    source = InMemoryTopics({"a": ("1", [1])})
    desk, ends = Desk(source), InMemoryLogEnds()
    desk.poll()
    poller = log_end_poller(desk, ends)
    ends.ends = [100]
    asyncio.run(_awaited(poller.poll_once))

    ends.ends = [3]
    asyncio.run(_awaited(poller.poll_once))
    source.topics["a"] = ("2", [1])

    assert [each.ids for each in desk.poll()] == [("2",)]


class Resting:
    """A large cluster in which nothing happens, and one group with a commit at row 7."""

    def __init__(self, partitions: int = FEW_PARTITIONS + 1) -> None:
        self.desk = Desk(InMemoryTopics({"a": ("1", [1] * partitions)}))
        self.ends, self.last = InMemoryLogEnds(), LastOffsets()
        self.ends.ends = [10] * partitions
        quiet = QuietPartitions(self.last, KeyRows(self.last), self.desk.clock)
        self.desk.poll()
        self.poller = log_end_poller(self.desk, self.ends, quiet)
        self.commit(3)

    def commit(self, offset: int) -> None:
        new = not len(self.last)
        self.last.note(
            Commits(
                first_new_id=0,
                new_groups=("g",) if new else (),
                new_topics=("a",) if new else (),
                new_partitions=(7,) if new else (),
                key=np.zeros(1, np.int32),
                offset=np.array([offset], np.int64),
                commit_ms=np.zeros(1, np.int64),
                order=np.zeros(1, np.int64),
                observed_ms=EpochMs(0),
            )
        )

    def rounds(self, passed_s: float) -> list[tuple[bool, list[int] | None]]:
        """What is asked for meanwhile, every five seconds."""
        before = len(self.ends.asked)
        for _ in range(round(passed_s / 5)):
            asyncio.run(self.desk.clock.sleep(5))
            asyncio.run(_awaited(self.poller.poll_once))
        return self.ends.asked[before:]


WHOLE_EVERY_S = whole_every_s(FEW_PARTITIONS + 1)
RESTS_AFTER_S = rests_after_s(FEW_PARTITIONS + 1)
Asked = tuple[bool, list[int] | None]
WHOLE: Asked = (True, None)
HEARTBEAT: Asked = (False, [0])
"""One partition of the only leader."""


def test_partitions_that_rest_are_asked_for_every_thirty_seconds() -> None:
    scene = Resting()
    scene.rounds(RESTS_AFTER_S)

    asked = scene.rounds(2 * WHOLE_EVERY_S)

    assert sorted(asked, key=str) == [HEARTBEAT] * 10 + [WHOLE] * 2
    assert WHOLE in asked[:6]
    reported = scene.desk.outbox.of(LogEnds)[-1]
    assert reported.log_end.tolist() == scene.ends.ends, (
        "what is not asked for is reported as it was"
    )


def test_more_partitions_are_asked_for_less_often() -> None:
    assert [whole_every_s(each) for each in (2_001, 4_500, 9_000, 18_000, 1_000_000)] == [
        *(30, 30, 60, 120, 120),
    ]
    many = 9_000
    scene = Resting(many)
    scene.rounds(rests_after_s(many))

    asked = scene.rounds(2 * whole_every_s(many))

    assert sorted(asked, key=str) == [HEARTBEAT] * 22 + [WHOLE] * 2


def test_before_they_have_rested_for_long_every_round_asks_for_all() -> None:
    scene = Resting()

    assert {rows for _, rows in scene.rounds(RESTS_AFTER_S - 10) if rows is not None} == set()


def test_a_message_or_a_commit_makes_a_partition_be_asked_for_in_every_round() -> None:
    scene = Resting()
    scene.rounds(RESTS_AFTER_S + WHOLE_EVERY_S)
    scene.commit(4)
    (committed,) = scene.rounds(5)
    scene.ends.ends[100] += 1
    scene.rounds(WHOLE_EVERY_S)

    asked = scene.rounds(WHOLE_EVERY_S)

    assert committed in (WHOLE, (False, [0, 7]))
    assert [rows for _, rows in asked if rows is not None] == [[0, 7, 100]] * 5


def test_a_small_cluster_is_asked_for_everything_in_every_round() -> None:
    scene = Resting(FEW_PARTITIONS)

    assert set(map(str, scene.rounds(2 * RESTS_AFTER_S))) == {str(WHOLE)}


def test_when_a_leader_does_not_answer_everything_is_asked_for() -> None:
    scene = Resting()
    scene.rounds(RESTS_AFTER_S + WHOLE_EVERY_S)
    while scene.rounds(5) != [WHOLE]:
        pass
    scene.ends.stale = True

    asked = scene.rounds(10)

    assert asked == [HEARTBEAT, WHOLE, WHOLE]
    assert scene.desk.outbox.of(LogEnds)[-2].asked is None


def test_log_ends_name_the_version_of_the_topics_they_are_about() -> None:
    desk, ends = Desk(InMemoryTopics({"a": ("1", [1, 1])})), InMemoryLogEnds()
    desk.poll()
    ends.ends = [5, -1]

    asyncio.run(_awaited(log_end_poller(desk, ends).poll_once))

    (reported,) = desk.outbox.of(LogEnds)
    assert (reported.version, reported.log_end.tolist()) == (1, [5, -1])


def group_poller(
    desk: Desk, source: InMemoryGroups, *, counts: Callable[[], bool] = lambda: True
) -> GroupPoller:
    return GroupPoller(
        source,
        filters=desk.filters,
        facts=desk.facts,
        clock=desk.clock,
        send=desk.outbox,
        wake=Wake(),
        interval_s=30.0,
        counts=counts,
    )


def test_groups_that_could_not_be_listed_stay_a_problem_until_they_can() -> None:
    source = InMemoryGroups({})
    desk = Desk(InMemoryTopics({}))
    poller = group_poller(desk, source)

    async def rounds() -> list[Sequence[str]]:
        source.problem = "a broker is silent"
        reported = [await poller.poll_once()]
        source.problem = ""
        reported.append(await poller.poll_once())  # not yet due, and no group rebalanced
        await desk.clock.sleep(30.0)
        return [*reported, await poller.poll_once()]

    assert asyncio.run(rounds()) == [["a broker is silent"], ["a broker is silent"], []]


def test_groups_whose_offsets_are_polled_are_reported_without_a_count_of_rebalances() -> None:
    source, counted = InMemoryGroups({}), [True]
    desk = Desk(InMemoryTopics({}))
    poller = group_poller(desk, source, counts=lambda: counted[0])

    async def rounds() -> None:
        poller.rebalanced("g")
        await poller.poll_once()
        counted[0] = False
        await desk.clock.sleep(30.0)
        await poller.poll_once()

    asyncio.run(rounds())
    assert [each.rebalances for each in desk.outbox.of(GroupsSeen)] == [{"g": 1}, None]


def test_a_commit_after_the_last_member_left_makes_its_group_be_described_at_once() -> None:
    class Emptied(InMemoryGroups):
        """One group, which has a member when all are listed, and none when it is described."""

        async def list_groups(self) -> GroupListing:
            listed = ListedGroup(name="g", type="classic", state="Stable")
            return GroupListing(groups=(listed,), problem="")

        async def describe(self, names: Sequence[str]) -> GroupDescriptions:
            found = [
                GroupInfo(
                    group=name,
                    type="classic",
                    state="Empty",
                    assignor="",
                    coordinator=1,
                    members=(),
                )
                for name in names
            ]
            return GroupDescriptions(infos=tuple(found), refused=(), missing=(), problems={})

    desk = Desk(InMemoryTopics({}))
    poller = group_poller(desk, Emptied({"g": {}}))

    async def rounds() -> list[int]:
        await poller.poll_once()
        reported = []
        for step in (
            lambda: poller.rebalanced("g", emptied=True),
            lambda: poller.committed(["g"]),
            lambda: poller.committed(["g"]),  # one look until all are listed again
        ):
            step()
            await poller.poll_once()
            reported.append(len(desk.outbox.of(GroupsSeen)))
        return reported

    assert asyncio.run(rounds()) == [2, 3, 3]


def test_a_fault_of_all_groups_is_said_once_and_whole_whatever_their_names() -> None:
    class Silent(InMemoryGroups):
        async def list_groups(self) -> GroupListing:
            names = ("a", "broker", "x")
            listed = [ListedGroup(name=each, type="share", state="Stable") for each in names]
            return GroupListing(groups=tuple(listed), problem="")

        async def describe(self, names: Sequence[str]) -> GroupDescriptions:
            said = "no answer from a broker"
            problems = {name: f"describing share group {name} failed: {said}" for name in names}
            return GroupDescriptions(infos=(), refused=(), missing=(), problems=problems)

    poller = group_poller(Desk(InMemoryTopics({})), Silent({"a": {}, "broker": {}, "x": {}}))

    async def one_round() -> Sequence[str] | None:
        return await poller.poll_once()

    assert asyncio.run(one_round()) == [
        "3 groups: describing share group … failed: no answer from a broker"
    ]


def committed_poller(
    desk: Desk, source: InMemoryGroups, watched: Sequence[str] = ()
) -> CommittedPoller:
    groups = group_poller(desk, source)
    return CommittedPoller(
        source, source, desk.surroundings(groups), interval_s=5.0, watched=watched
    )


def polled(desk: Desk, poller: CommittedPoller) -> list[tuple[int, int]]:
    """(id, offset) of the rows one more round reports."""
    before = len(desk.outbox.of(Commits))
    asyncio.run(_awaited(poller.poll_once))
    reported = desk.outbox.of(Commits)[before:]
    return [
        row
        for each in reported
        for row in zip(each.key.tolist(), each.offset.tolist(), strict=True)
    ]


def test_an_offset_that_does_not_change_is_reported_once() -> None:
    source = InMemoryGroups({"g": {("t", 0): 5, ("t", 1): 7}})
    desk = Desk(InMemoryTopics({}))
    poller = committed_poller(desk, source)

    assert polled(desk, poller) == [(0, 5), (1, 7)]
    assert polled(desk, poller) == []
    source.offsets["g"]["t", 1] = 8
    assert polled(desk, poller) == [(1, 8)]


def test_an_offset_of_a_topic_made_anew_is_reported_though_its_number_is_the_same() -> None:
    topics, source = InMemoryTopics({"t": ("id-1", [1])}), InMemoryGroups({"g": {("t", 0): 5}})
    desk = Desk(topics)
    desk.poll()
    poller = committed_poller(desk, source)
    source.at_ms = desk.clock.now_ms()
    assert polled(desk, poller) == [(0, 5)]

    asyncio.run(_awaited(lambda: desk.clock.sleep(10)))
    topics.topics["t"] = ("id-2", [1])
    desk.topics.suspect(ids=True)
    (reported,) = desk.poll()
    asked_before = polled(desk, poller)
    source.at_ms = desk.clock.now_ms()

    assert reported.replaced_after_ms["t"] < desk.clock.now_ms()
    assert asked_before == [], "this answer may still be of the deleted topic"
    assert polled(desk, poller) == [(0, 5)]
    assert polled(desk, poller) == []


def test_a_topic_that_went_away_is_looked_for_while_it_has_committed_offsets() -> None:
    topics, source = InMemoryTopics({"t": ("id-1", [1])}), InMemoryGroups({"g": {("t", 0): 5}})
    desk = Desk(topics)
    desk.poll()
    poller = committed_poller(desk, source)
    polled(desk, poller)
    del topics.topics["t"]
    desk.poll()
    desk.wake.answer()

    polled(desk, poller)
    assert called(desk)
    desk.wake.answer()
    desk.poll()
    assert called(desk), "not found, so it is looked for again"
    topics.topics["t"] = ("id-2", [1])
    desk.wake.answer()
    (reported,) = desk.poll()

    assert reported.ids == ("id-2",)
    assert not called(desk)
    assert not desk.topics.gone


def test_a_polled_offset_that_went_back_makes_the_ids_be_asked_for() -> None:
    topics, source = InMemoryTopics({"t": ("id-1", [1])}), InMemoryGroups({"g": {("t", 0): 50}})
    desk = Desk(topics)
    desk.poll()
    poller = committed_poller(desk, source)
    polled(desk, poller)
    topics.topics["t"] = ("id-2", [1])

    source.offsets["g"]["t", 0] = 5
    polled(desk, poller)
    (reported,) = desk.poll()

    assert reported.ids == ("id-2",)


def test_an_offset_that_vanished_is_reported_as_removed_once() -> None:
    source = InMemoryGroups({"g": {("t", 0): 5, ("t", 1): 7}})
    desk = Desk(InMemoryTopics({}))
    poller = committed_poller(desk, source)
    polled(desk, poller)

    del source.offsets["g"]["t", 0]

    assert polled(desk, poller) == [(0, -1)]
    assert polled(desk, poller) == []


def test_an_offset_that_is_left_out_with_the_right_to_its_topic_is_not_removed() -> None:
    source = InMemoryGroups({"g": {("t", 0): 5, ("u", 0): 7, ("v", 0): 9}})
    desk = Desk(InMemoryTopics({}))
    poller = committed_poller(desk, source)
    polled(desk, poller)
    source.hidden_topics = frozenset({"t"})

    before = source.offsets["g"]
    source.offsets["g"] = {("v", 0): 9}
    gone = polled(desk, poller)
    source.offsets["g"] = {**before, ("t", 0): 6}
    back = polled(desk, poller)

    assert gone == [(1, -1)]
    assert back == [(0, 6), (1, 7)]


def test_a_group_that_vanished_is_gone_but_not_while_the_list_is_partial() -> None:
    source = InMemoryGroups({"g": {("t", 0): 5}, "h": {("t", 0): 1}})
    desk = Desk(InMemoryTopics({}))
    poller = committed_poller(desk, source)
    polled(desk, poller)
    del source.offsets["h"]

    source.problem = "a broker does not answer"
    polled(desk, poller)
    assert [each.groups for each in desk.outbox.of(GroupsGone)] == [()]
    source.problem = ""
    polled(desk, poller)

    assert [each.groups for each in desk.outbox.of(GroupsGone)] == [(), ("h",)]


def test_a_group_that_a_broker_does_not_list_yet_is_not_gone() -> None:
    """One that has just started lists only the groups that it has loaded."""
    source = InMemoryGroups({"g": {("t", 0): 5}, "h": {("t", 0): 1}})
    desk = Desk(InMemoryTopics({}))
    poller = committed_poller(desk, source)
    polled(desk, poller)

    source.unlisted = {"h"}
    polled(desk, poller)
    source.unlisted = set()
    again = polled(desk, poller)

    assert [each.groups for each in desk.outbox.of(GroupsGone)] == [()]
    assert again == []


@pytest.mark.parametrize("listed", [True, False])
def test_a_group_whose_right_is_taken_away_is_hidden_until_it_is_given_back(
    *, listed: bool
) -> None:
    source = InMemoryGroups({"g": {("t", 0): 5}, "h": {("t", 0): 1}})
    desk = Desk(InMemoryTopics({}))
    poller = committed_poller(desk, source)
    polled(desk, poller)
    h = source.offsets["h"]
    source.hidden = {"h"}
    if not listed:
        del source.offsets["h"]

    problems = [asyncio.run(poller.poll_once()) for _ in range(2)][-1]
    (first, taken_away) = desk.outbox.of(GroupsGone)
    source.hidden, source.offsets["h"] = set(), h
    back = polled(desk, poller)

    assert (first.answered, taken_away.answered) == (frozenset("gh"), frozenset())
    assert (taken_away.groups, taken_away.hidden) == (("h",), frozenset("h"))
    assert "Allow DESCRIBE on GROUP h" in problems[0]
    assert [offset for _, offset in back] == [1]
    assert desk.outbox.of(GroupsGone)[-1].hidden == frozenset()
    assert asyncio.run(poller.poll_once()) == []


def test_a_new_poller_finds_out_which_of_the_groups_watched_before_are_hidden() -> None:
    source = InMemoryGroups({"g": {("t", 0): 5}})
    source.hidden = {"h"}
    desk = Desk(InMemoryTopics({}))
    poller = committed_poller(desk, source, watched=["g", "h", "deleted"])

    problems = [asyncio.run(poller.poll_once()) for _ in range(2)]

    (found,) = desk.outbox.of(GroupsGone)
    assert (found.groups, found.hidden) == ((), frozenset("h"))
    assert found.answered == {"g"}
    assert all("Allow DESCRIBE on GROUP h" in each[0] for each in problems)


def test_commits_are_not_known_while_no_group_may_be_described() -> None:
    source = InMemoryGroups({"g": {("t", 0): 5}})
    desk = Desk(InMemoryTopics({}))
    poller = committed_poller(desk, source)
    polled(desk, poller)
    asyncio.run(_awaited(lambda: desk.clock.sleep(10)))
    source.hidden = {"g"}
    polled(desk, poller)

    before, after = desk.outbox.of(CommitsKnown)

    assert before.until_ms.tolist() == after.until_ms.tolist()


def test_orders_grow_from_round_to_round_even_when_the_clock_stands() -> None:
    source = InMemoryGroups({"g": {("t", 0): 5}})
    desk = Desk(InMemoryTopics({}))
    poller = committed_poller(desk, source)
    for offset in (5, 6, 7):
        source.offsets["g"]["t", 0] = offset
        polled(desk, poller)

    orders = [each.order.tolist() for each in desk.outbox.of(Commits)]

    assert orders == sorted(orders)
    assert len({order for (order,) in orders}) == 3


def test_a_row_says_when_its_group_answered_and_when_it_was_asked_before() -> None:
    source = InMemoryGroups({"g": {("t", 0): 5}})
    desk = Desk(InMemoryTopics({}))
    poller = committed_poller(desk, source)
    polled(desk, poller)
    source.at_ms = 2_000
    polled(desk, poller)

    source.offsets["g"] = {("t", 0): 6, ("t", 1): 1}
    source.at_ms = 3_000
    polled(desk, poller)

    first, second = desk.outbox.of(Commits)
    assert first.after_ms is not None
    assert second.after_ms is not None
    assert (first.commit_ms.tolist(), first.after_ms.tolist()) == ([1_001], [-1])
    assert second.commit_ms.tolist() == [3_001, 3_001]
    assert second.after_ms.tolist() == [2_000, 2_000], "also of the round that changed nothing"
    assert all(each.only_changes and not each.exact_times for each in (first, second))
    assert not any(each.beside for each in (first, second))


def test_a_round_that_fails_in_part_leaves_commits_known_as_before() -> None:
    source = InMemoryGroups({"g": {("t", 0): 5}})
    desk = Desk(InMemoryTopics({}))
    poller = committed_poller(desk, source)
    at_ms = desk.clock.now_ms()
    polled(desk, poller)

    source.problem = "a broker is silent"
    asyncio.run(desk.clock.sleep(5.0))
    polled(desk, poller)

    assert [each.until_ms.tolist() for each in desk.outbox.of(CommitsKnown)] == [[at_ms], [at_ms]]


def test_a_round_that_takes_too_long_is_said_until_one_does_not() -> None:
    source = InMemoryGroups({"g": {("t", 0): 5}})
    desk = Desk(InMemoryTopics({}))
    poller = committed_poller(desk, source)
    source.wait = lambda: desk.clock.sleep(12.0)
    polled(desk, poller)
    slow = desk.outbox.of(CollectorFacts)[-1].unseen

    source.wait = lambda: desk.clock.sleep(1.0)
    polled(desk, poller)

    assert len(slow) == 1
    assert "1 groups takes 12 s" in slow[0]
    assert desk.outbox.of(CollectorFacts)[-1].unseen == ()


def test_a_round_that_waits_for_a_silent_broker_is_not_said_to_take_long() -> None:
    source = InMemoryGroups({"g": {("t", 0): 5}})
    desk = Desk(InMemoryTopics({}))
    poller = committed_poller(desk, source)
    source.wait = lambda: desk.clock.sleep(12.0)
    source.problem = "a broker is silent"
    polled(desk, poller)

    assert desk.outbox.of(CollectorFacts)[-1].unseen == ()


def test_a_group_of_another_kind_that_commits_is_a_streams_group() -> None:
    source = InMemoryGroups({})
    source.others = ("streams", "shares")
    desk = Desk(InMemoryTopics({}))
    poller = group_poller(desk, source)
    poller.mention(["streams", "deleted"])

    async def rounds() -> None:
        await poller.poll_once()
        await desk.clock.sleep(30.0)
        await poller.poll_once()

    asyncio.run(rounds())

    reported = [
        [(each.group, each.type) for each in seen.groups] for seen in desk.outbox.of(GroupsSeen)
    ]
    assert reported == [[("shares", "unknown"), ("streams", "streams")]] * 2
