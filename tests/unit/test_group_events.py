"""What happened to a group, in order: from reports to events, and what is printed of them."""

import json

import pytest

from lagwatch.cli.events import line
from lagwatch.core.model import EpochMs, GroupInfo, Member, RuleSet
from lagwatch.errors import NotFoundError
from lagwatch.history.changes import as_rows
from lagwatch.monitor.group_watch import STORM_MS
from lagwatch.monitor.story import Stories
from lagwatch.monitor.story import Story as SteppedCluster
from lagwatch.ports.queries import GroupEvent
from lagwatch.ports.reports import GroupsSeen
from tests.unit.test_monitor import Story


def member(name: str, *partitions: int, instance: str = "", client: str = "c") -> Member:
    return Member(
        member_id=name,
        client_id=client,
        host="/10.0.0.1",
        instance_id=instance,
        assignment=(("orders", partitions),) if partitions else (),
    )


def group(
    *members: Member, state: str = "", kind: str = "classic", assignor: str = "range"
) -> GroupInfo:
    return GroupInfo(
        group="g",
        type=kind,
        state=state or ("Stable" if members else "Empty"),
        assignor=assignor,
        coordinator=1,
        members=members,
    )


class Scene(Story):
    """A cluster with one topic of two partitions."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self.topics(orders=2)
        self.ends(orders=100)

    def see(
        self, info: GroupInfo, *, rebalances: int | None = 0, emptied: frozenset[str] = frozenset()
    ) -> None:
        self.wait(1)
        reported = None if rebalances is None else {"g": rebalances} if rebalances else {}
        self.apply(GroupsSeen(groups=(info,), complete=True, rebalances=reported, emptied=emptied))

    def judge(self) -> None:
        self.monitor.judge(EpochMs(self.now_ms))

    def events(self, *but: str) -> list[tuple[str, str | None, str | None, int | None]]:
        return [
            (each.event, each.before, each.after, each.count)
            for each in self.monitor.story.of("g")
            if each.event not in but
        ]

    def detail(self, name: str) -> object:
        """That of the only event of this name."""
        (found,) = [each for each in self.monitor.story.of("g") if each.event == name]
        return json.loads(found.detail or "null")


def test_what_is_seen_first_is_no_event() -> None:
    scene = Scene()

    scene.see(group(member("a", 0, 1)))

    assert scene.events() == []


def test_members_that_come_and_go_are_named_with_client_id_and_host() -> None:
    scene = Scene()
    scene.see(group(member("a", 0, 1)))

    scene.see(group(member("a", 0), member("b", 1, client="new")))
    scene.see(group(member("b", 0, 1, client="new")))

    assert scene.events() == [
        ("member_joined", None, None, 1),
        ("member_left", None, None, 1),
    ]
    assert scene.detail("member_joined") == [{"client_id": "new", "host": "/10.0.0.1"}]
    assert scene.detail("member_left") == [{"client_id": "c", "host": "/10.0.0.1"}]


def test_a_state_without_a_word_hides_no_member_and_a_failed_description_is_no_change() -> None:
    scene = Scene()
    scene.see(group(member("a", 0, 1)))

    scene.see(group(state="Unknown"))
    scene.see(group(member("a", 0), member("b", 1), state="Unknown"))
    scene.see(group(member("a", 0), member("b", 1)))

    assert scene.events() == [("member_joined", None, None, 1)]


def test_a_static_member_is_away_and_comes_back_and_a_restart_is_no_join() -> None:
    scene = Scene()
    scene.see(group(member("a-1", 0, 1, instance="a"), member("b-1", instance="b")))

    scene.see(group(member("a-2", 0, 1, instance="a"), member("b-1", instance="b")))
    scene.see(group(member("a-2", 0, 1, instance="a")))
    scene.see(group(member("a-2", 0, 1, instance="a"), member("b-2", instance="b")))

    assert [event for event, *_ in scene.events()] == [
        "static_member_away",
        "static_member_back",
        "static_member_away",
        "static_member_back",
    ], "one that was restarted between two looks was away, too"


def test_time_without_an_assignment_is_measured() -> None:
    scene = Scene()
    scene.see(group(member("a", 0, 1)))

    scene.see(group(member("a"), state="PreparingRebalance"))
    scene.wait(40)
    scene.see(group(member("a", 0, 1)))

    assert scene.events() == [
        ("unassigned", None, "PreparingRebalance", None),
        ("assigned", None, None, None),
    ]
    assert scene.detail("assigned") == {"unassigned_s": 41.0}


def test_another_assignor_and_another_protocol_are_reported() -> None:
    scene = Scene()
    scene.see(group(member("a", 0)))

    scene.see(group(member("a", 0), assignor="cooperative-sticky"))
    scene.see(group(member("a", 0), assignor="uniform", kind="consumer"))

    assert scene.events() == [
        ("assignor", "range", "cooperative-sticky", None),
        ("protocol", "classic", "consumer", None),
        ("assignor", "cooperative-sticky", "uniform", None),
    ]


def test_each_member_that_starts_is_an_epoch_and_a_start_of_many_is_no_storm() -> None:
    scene = Scene()
    names = "abcdef"
    for number in range(1, len(names) + 1):
        there = [member(name, 0) for name in names[:number]]
        scene.see(group(*there, kind="consumer"), rebalances=1)
    scene.see(group(*there[1:], kind="consumer"), rebalances=1)
    scene.see(group(*there[1:], member("g", 0), kind="consumer"), rebalances=1)

    assert "rebalance_storm" not in {event for event, *_ in scene.events()}

    for name in "hij":
        scene.see(group(*there[1:], member(name, 0), kind="consumer"), rebalances=2)

    assert ("rebalance_storm", None, "began", 6) in scene.events(), "members that crash are one"


def test_many_rebalances_are_a_storm_until_there_are_none() -> None:
    scene = Scene()
    scene.see(group(member("a", 0)), rebalances=2)
    scene.see(group(member("a", 0)), rebalances=2)
    assert "rebalance_storm" not in {event for event, *_ in scene.events()}

    scene.see(group(member("a", 0)), rebalances=1)
    scene.see(group(member("a", 0)), rebalances=1)
    scene.wait(STORM_MS / 1000 + 1)
    scene.see(group(member("a", 0)))

    assert scene.events("rebalance") == [
        ("rebalance_storm", None, "began", 5),
        ("rebalance_storm", None, "ended", None),
    ]


def left_at(*offsets: int, rebalances: int | None = 0) -> Scene:
    """A group whose only member has committed these offsets of 100 and left."""
    scene = Scene()
    scene.see(group(member("a", 0, 1)), rebalances=rebalances)
    for partition, offset in enumerate(offsets):
        scene.commit(("g", "orders", partition, offset))
    scene.ends(orders=100)
    scene.judge()
    scene.see(group(), rebalances=rebalances)
    scene.judge()
    scene.wait(2)
    return scene


def test_offsets_set_while_a_group_is_empty_are_a_reset() -> None:
    scene = left_at(80, 80)

    scene.commit(("g", "orders", 0, 95))
    scene.commit(("g", "orders", 1, 10))
    scene.ends(orders=100)
    assert "offsets_reset" not in {event for event, *_ in scene.events()}, "not sure yet"
    scene.see(group())

    assert scene.events("unassigned", "member_left", "group_status")[-1:] == [
        ("offsets_reset", None, None, 2)
    ]
    assert scene.detail("offsets_reset") == [
        {"partition": 0, "before": 80, "after": 95},
        {"partition": 1, "before": 80, "after": 10},
    ]


def test_a_reset_is_reported_with_the_round_of_its_commit_if_the_group_was_seen_empty_since() -> (
    None
):
    scene = left_at(80)

    scene.commit(("g", "orders", 0, 10))
    scene.see(group())
    assert "offsets_reset" not in {event for event, *_ in scene.events()}
    scene.ends(orders=100)

    assert scene.events("unassigned", "member_left", "group_status") == [
        ("offsets_reset", None, None, 1)
    ]


def test_a_reset_is_one_although_the_record_that_the_last_member_left_is_read_after_it() -> None:
    scene = left_at(80)

    scene.commit(("g", "orders", 0, 10))
    scene.see(group(), rebalances=1, emptied=frozenset("g"))
    scene.ends(orders=100)

    assert scene.events("unassigned", "member_left", "group_status", "rebalance") == [
        ("offsets_reset", None, None, 1)
    ]


@pytest.mark.parametrize("rebalances", [0, 1])
def test_a_commit_of_a_member_that_joined_meanwhile_is_no_reset(rebalances: int) -> None:
    scene = left_at(80)

    scene.commit(("g", "orders", 0, 95))
    scene.ends(orders=100)
    joined = () if rebalances else (member("b", 0, 1),)
    scene.see(group(*joined), rebalances=rebalances)
    scene.see(group(*joined))

    assert "offsets_reset" not in {event for event, *_ in scene.events()}


def test_where_rebalances_are_not_seen_only_offsets_that_go_back_were_set_by_hand() -> None:
    scene = left_at(80, 80, rebalances=None)

    # a member came, read and left, and somebody set the other offset back
    scene.commit(("g", "orders", 0, 95))
    scene.commit(("g", "orders", 1, 10))
    scene.ends(orders=100)
    scene.see(group(), rebalances=None)

    assert scene.detail("offsets_reset") == [{"partition": 1, "before": 80, "after": 10}]


def test_a_group_that_never_had_members_commits_as_it_likes_but_going_back_is_reported() -> None:
    scene = Scene()
    scene.see(group())
    scene.commit(("g", "orders", 0, 50))
    scene.ends(orders=100)
    scene.judge()
    scene.see(group())
    scene.judge()
    scene.commit(("g", "orders", 0, 60))
    scene.ends(orders=100)
    scene.see(group())
    assert scene.events("group_status") == []

    scene.commit(("g", "orders", 0, 5))
    scene.ends(orders=100)
    scene.see(group())

    assert scene.events("group_status") == [("offsets_reset", None, None, 1)]


def test_topics_that_grow_or_are_made_anew_are_reported_to_their_groups() -> None:
    scene = Scene()
    scene.commit(("g", "orders", 0, 50))
    scene.ends(orders=100)

    scene.topics(orders=3)
    scene.topics(orders=3, ids={"orders": "another"})

    assert scene.events("group_status") == [
        ("partitions_added", "2", "3", 1),
        ("topic_recreated", None, None, None),
    ]
    assert scene.monitor.story.of("stranger") == ()


@pytest.mark.parametrize("listed_meanwhile", [False, True])
def test_a_group_whose_offsets_went_with_its_topic_reads_that_it_was_made_anew(
    *, listed_meanwhile: bool
) -> None:
    scene = Scene()
    scene.topics(orders=2, ids={"orders": "first"})
    scene.commit(("g", "orders", 0, 50))
    scene.ends(orders=100)

    scene.commit(("g", "orders", 0, -1))
    if listed_meanwhile:
        scene.topics(others=1)
        for _ in range(8):
            scene.wait(5)
            scene.ends(others=1)
            scene.judge()
    scene.topics(orders=2, ids={"orders": "second"})
    scene.topics(orders=2, ids={"orders": "second"})

    assert scene.events("group_status") == [("topic_recreated", None, None, None)]


def test_changes_of_the_verdict_are_in_the_story_but_not_recorded_twice() -> None:
    scene = Scene(rules=RuleSet.BURROW)
    for offset in (50, 60, 70, 80, 90, 20):
        scene.wait(2)
        scene.commit(("g", "orders", 0, offset))
        scene.wait(1)
        scene.ends(orders=100)
        scene.judge()

    assert scene.events()[-1][:3] == ("group_status", "OK", "ERR")
    assert scene.monitor.story.of("g")[-1].rule == "rewound"
    assert scene.monitor.story.take() == ()


def event(name: str, number: int = 0, **values: object) -> GroupEvent:
    return GroupEvent(at_ms=EpochMs(1_795_233_600_000 + number), group="g", event=name, **values)  # type: ignore[arg-type]


def test_a_story_is_bounded_for_each_group_and_for_all() -> None:
    story = SteppedCluster(of_group=3, of_cluster=5)
    for number in range(4):
        story.add(event("assigned", number))
    for number in range(3):
        story.add(GroupEvent(at_ms=EpochMs(number), group="h", event="assigned"))

    assert story.of("g") == (), "the group that was quiet for longest goes first"
    assert len(story.of("h")) == 3
    assert len(story.take()) == 5
    assert story.take() == ()


def test_a_story_keeps_the_newest_of_a_group() -> None:
    story = SteppedCluster(of_group=2)
    for number in range(3):
        story.add(event("assigned", number))

    assert [each.at_ms % 10 for each in story.of("g")] == [1, 2]


def test_who_left_last_is_known_however_much_follows() -> None:
    story = SteppedCluster(of_group=3)
    story.add(event("member_left"))
    for number in range(1, 9):
        story.add(event("lost", number))

    assert [each.event for each in story.of("g")] == ["member_left", "lost", "lost", "lost"]
    assert [each.event for each in story.newest(2)] == ["member_left", "lost", "lost"]


def test_an_unknown_cluster_is_not_an_empty_story() -> None:
    with pytest.raises(NotFoundError):
        Stories({}).events("c", "g")


def test_two_events_of_one_key_are_one_row() -> None:
    rows = as_rows("c", [event("assigned", detail="1"), event("assigned", detail="2")])

    assert rows.size == 1


@pytest.mark.parametrize(
    ("reported", "said"),
    [
        (
            event("member_left", count=2, detail='[{"client_id":"a","host":"/h"}]'),
            "2 members left: client a on h, and 1 more",
        ),
        (
            event(
                "static_member_away",
                count=1,
                detail='[{"client_id":"a","host":"/h","instance_id":"i"}]',
            ),
            "1 static member away: client a on h (instance i)",
        ),
        (event("rebalance", count=3), "3 rebalances"),
        (event("rebalance_storm", after="began", count=5), "rebalance storm began: 5 within 5 min"),
        (event("rebalance_storm", after="ended"), "rebalance storm ended"),
        (event("unassigned", after="Empty"), "no member holds a partition (state Empty)"),
        (
            event("assigned", detail='{"unassigned_s":192.0}'),
            "partitions are assigned again after 3 min 12 s",
        ),
        (
            event(
                "offsets_reset",
                topic="t",
                count=1,
                detail='[{"partition":0,"before":8000,"after":1}]',
            ),
            "t offsets were set while the group had no members: 0: 8,000 → 1",
        ),
        (
            event("partitions_added", topic="t", before="2", after="3"),
            "t 3 partitions instead of 2",
        ),
        (event("topic_recreated", topic="t"), "t the topic was deleted and made anew"),
        (
            event("records_lost", topic="t", partition=1, count=7),
            "t/1 7 messages deleted before the group read them",
        ),
        (
            event("records_lost", count=7, detail='{"first":3,"end":10,"exact":false}'),
            "at most 7 messages deleted before the group read them",
        ),
        (
            event("group_status", before="OK", after="ERR", rule="stopped"),
            "group status: OK → ERR (stopped)",
        ),
        (event("of_a_later_version"), "of a later version"),
    ],
    ids=lambda each: each.event if isinstance(each, GroupEvent) else "",
)
def test_each_event_is_one_line(reported: GroupEvent, said: str) -> None:
    point = {name: getattr(reported, name) for name in GroupEvent.__slots__}

    assert line(point) == f"2026-11-21 04:00:00Z {said}"


def test_a_lag_that_is_not_known_is_not_zero_in_the_story() -> None:
    scene = Scene()
    for offset in (10, 20, 30):
        scene.commit(("g", "orders", 0, offset))
        scene.wait(5)
        scene.ends(orders=100)
        scene.judge()
    scene.topics(other=1)  # the topic went
    scene.wait(5)
    scene.ends(other=1)
    scene.judge()

    lags = [each.lag for each in scene.monitor.story.of("g") if each.event == "group_status"]

    assert lags == [80, None]


def test_an_assignor_that_changes_while_a_group_is_stopped_is_an_event() -> None:
    scene = Scene()
    scene.see(group(member("a", 0, 1), assignor="range"))
    scene.see(group(assignor=""))

    scene.see(group(member("b", 0, 1), assignor="roundrobin"))

    assert ("assignor", "range", "roundrobin", None) in scene.events()


def restarted(before: Scene) -> Scene:
    """lagwatch after a restart: the story is kept."""
    scene = Scene()
    scene.monitor.story.restore(before.monitor.story.of("g"))
    scene.now_ms = before.now_ms
    return scene


def test_offsets_set_forward_while_a_group_is_empty_are_a_reset_after_a_restart_too() -> None:
    before = Scene()
    before.see(group(member("a", 0, 1)))
    before.see(group())
    scene = restarted(before)
    scene.commit(("g", "orders", 0, 80))
    scene.ends(orders=100)
    scene.see(group())
    scene.judge()
    scene.wait(2)

    scene.commit(("g", "orders", 0, 95))
    scene.ends(orders=100)
    scene.see(group())

    assert scene.detail("offsets_reset") == [{"partition": 0, "before": 80, "after": 95}]


def test_what_began_before_a_restart_ends_after_it() -> None:
    before = Scene()
    before.see(group(member("a-1", 0, 1, instance="a"), member("b", 0)))
    before.see(group(member("b", 0)), rebalances=5)
    assert {"static_member_away", "rebalance_storm"} <= {event for event, *_ in before.events()}
    scene = restarted(before)
    known = len(scene.events())

    scene.see(group(member("a-2", 0, 1, instance="a"), member("b", 0)))
    assert scene.events()[known:] == [("static_member_back", None, None, 1)]
    scene.wait(600)
    scene.see(group(member("a-2", 0, 1, instance="a"), member("b", 0)))
    assert scene.events()[known + 1 :] == [("rebalance_storm", None, "ended", None)]
