"""Why a group is gone: its last signs of life say whether it was deleted, expired or forgotten."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from lagwatch.config.alerts import AlertsSettings
from lagwatch.config.cluster import ClusterSettings
from lagwatch.core.departure import (
    DEFAULT_RETENTION_MS,
    Departure,
    LastSeen,
    Retention,
    departure,
    gone_after_ms,
)
from lagwatch.core.incident import Act, Incident, Reason, State
from lagwatch.core.model import EpochMs, GroupStatus
from lagwatch.notify.alerts import is_followed
from lagwatch.notify.policies import PolicyBook
from lagwatch.notify.store import Kept, Named
from lagwatch.notify.watch import Decided, Watch
from lagwatch.notify.words import details, headline, instant
from lagwatch.ports.reports import Backlog
from lagwatch.query import SnapshotQueries
from tests.support.alert_situations import situations
from tests.support.history import NOON_MS, Live

HOUR_MS = 3_600_000
NOW_MS = 1_800_000_000_000
GONE = situations()["gone"].notices[0]


def went(
    alive_h: float,
    *,
    commit_h: float | None = None,
    kept_h: float | None = 48,
    forget_h: float = 999,
    at_least: bool = False,
    refused: bool = False,
) -> Departure:
    """How a group went whose last member was seen `alive_h` hours before."""
    commit_h = alive_h if commit_h is None else commit_h
    return departure(
        LastSeen(
            commit_ms=NOW_MS - round(commit_h * HOUR_MS),
            alive_ms=NOW_MS - round(alive_h * HOUR_MS),
            at_least=at_least,
        ),
        NOW_MS,
        retention=Retention(
            known_ms=None if kept_h is None else round(kept_h * HOUR_MS), refused=refused
        ),
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

        assert went(60, kept_h=None, refused=True) is Departure.LIKELY_DELETED
        assert went(days, kept_h=None, refused=True) is Departure.LIKELY_EXPIRED

    def test_before_the_brokers_have_answered_it_is_not_known(self) -> None:
        assert went(1, kept_h=None) is Departure.UNKNOWN
        assert went(500, kept_h=None) is Departure.UNKNOWN
        assert went(0, commit_h=24, forget_h=24, kept_h=None) is Departure.FORGOTTEN

    def test_what_lagwatch_itself_drops_is_not_called_deleted(self) -> None:
        assert went(0, commit_h=24, forget_h=24) is Departure.FORGOTTEN
        assert went(0, commit_h=23.9, forget_h=24) is Departure.DELETED

    def test_signs_of_before_a_start_can_show_a_deletion_and_nothing_else(self) -> None:
        assert went(1, at_least=True) is Departure.DELETED
        assert went(50, at_least=True) is Departure.UNKNOWN, "it may have lived for longer"
        assert went(1, commit_h=24, forget_h=24, at_least=True) is Departure.UNKNOWN

    @pytest.mark.parametrize("last", [None, LastSeen(commit_ms=-1, alive_ms=NOW_MS)])
    def test_without_a_sign_of_life_it_is_not_known(self, last: LastSeen | None) -> None:
        found = departure(last, NOW_MS, retention=Retention(known_ms=HOUR_MS), forget_ms=HOUR_MS)

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


class Restarted:
    """lagwatch has just started; the incident of group `a`, of before, is open, and `a` is gone."""

    def __init__(self, *, follows: str = "") -> None:
        self.live = Live()
        self.live.topics(orders=2)
        self.live.wait(1)
        self.live.commit(("b", "orders", 1, 100))
        self.live.wait(1)
        at_ms = EpochMs(self.live.now_ms - HOUR_MS)
        incident = Incident(
            since_ms=at_ms, opened_ms=at_ms, severity=GroupStatus.ERR, notified=GroupStatus.ERR
        )
        kept = Kept(
            cluster="here",
            group="a",
            incident="i1",
            policy="all",
            complete=1.0,
            state=State(incident=incident),
            last=LastSeen(commit_ms=at_ms, alive_ms=at_ms, at_least=True),
        )
        book = PolicyBook(AlertsSettings(policies={"all": {"close_for_s": 30}}))
        cluster = ClusterSettings(
            bootstrap=["kafka:9092"], group_deny=follows and f"^(?!{follows})"
        )
        self.watch = Watch(
            "here",
            book,
            [kept],
            {},
            started_ms=self.live.now_ms,
            follows=partial(is_followed, cluster),
        )

    def sees(self, for_s: int) -> list[Decided]:
        """What is decided in rounds for so long."""
        queries = SnapshotQueries({"here": self.live.monitor}, health=tuple)
        outlook = partial(queries.outlook, "here")
        decided = []
        for _ in range(0, for_s, 5):
            self.live.wait(5)
            now_ms = EpochMs(self.live.now_ms)
            found = self.watch.decide(self.live.judge(), now_ms, lambda _: False, outlook)
            self.watch.apply(found)
            decided += found
        return decided


class TestAfterAStart:
    def test_a_group_that_kafka_does_not_list_any_more_ends_soon(self) -> None:
        here = Restarted()
        first_ms = here.live.now_ms + 5000
        here.live.list_groups("b")

        before, (ended,) = here.sees(60), here.sees(60)

        assert before == []
        assert ended.decision.act is Act.CLOSE
        assert ended.gone_ms == first_ms
        assert ended.last is not None

    def test_a_group_that_kafka_lists_may_come_back(self) -> None:
        here = Restarted()
        here.live.list_groups("a", "b")

        assert here.sees(300) == []

    @pytest.mark.parametrize(
        ("follows", "reason"), [("a", Reason.GROUP_GONE), ("b", Reason.NOT_FOLLOWED)]
    )
    def test_a_group_that_is_filtered_out_now_was_not_deleted(self, follows, reason) -> None:
        here = Restarted(follows=follows)
        here.live.list_groups("b")

        (ended,) = here.sees(120)

        assert ended.decision.reason is reason

    def test_nothing_ends_before_kafka_has_listed_its_groups(self) -> None:
        assert Restarted().sees(300) == []

    def test_a_group_that_is_removed_by_request_ends_at_once(self) -> None:
        here = Restarted()
        here.watch.remove("a")

        (ended,) = here.sees(5)

        assert ended.decision.act is Act.CLOSE
        assert ended.removed


def test_the_trouble_of_a_group_that_is_gone_ended_when_it_was_missed() -> None:
    gone = replace(GONE, verdict={**GONE.verdict, "ended_ms": GONE.at_ms - 60_000})

    assert headline(GONE).endswith("after 28 min 15 s")
    assert headline(gone).endswith("after 27 min 15 s")


def test_what_went_while_lagwatch_did_not_look_ended_between_two_instants() -> None:
    ended = {"ended_ms": GONE.at_ms, "gone_after_ms": GONE.at_ms - 900_000}
    gone = replace(GONE, verdict={**GONE.verdict, **ended})
    since = replace(gone, since_at_least=True)

    assert headline(gone).endswith("after at most 28 min 15 s")
    assert headline(since).endswith("after about 28 min 15 s")
    (span,) = (line for line in details(gone) if line.startswith("It was ERROR"))
    after, by = (instant(at_ms, GONE.zone) for at_ms in (GONE.at_ms - 900_000, GONE.at_ms))
    assert f" to between {after} and {by}, for at most 28 min 15 s." in span


@pytest.mark.parametrize("at_least", [True, False])
def test_only_what_was_not_looked_at_all_the_time_has_a_lower_bound(at_least) -> None:
    last = LastSeen(commit_ms=5, alive_ms=7, at_least=at_least)

    assert gone_after_ms(last) == (7 if at_least else None)


def story(live: Live, happens: Callable[[int], None], **policy: float) -> list[Decided]:
    """What is decided within 25 minutes, of which `happens` is called every 5 s."""
    queries = SnapshotQueries({"here": live.monitor}, health=tuple)
    outlook = partial(queries.outlook, "here")
    book = PolicyBook(AlertsSettings(policies={"all": {"close_for_s": 30, **policy}}))
    watch = Watch("here", book, [], {}, started_ms=live.now_ms)
    decided: list[Decided] = []
    for second in range(0, 1500, 5):
        for topic, partition in list(live.ends):
            live.produce(topic, partition, 10)
        live.wait(5)
        happens(second)
        found = watch.decide(live.judge(), EpochMs(live.now_ms), lambda _: False, outlook)
        watch.apply(found)
        decided += found
    return decided


class TestATopicThatIsDeleted:
    """A group that reads `orders`, where it stopped, and perhaps `mail`, where it goes on."""

    def decided(self, *, reads_mail: bool) -> list[Decided]:
        live = Live()
        live.topics(orders=1, mail=1)

        def happens(second: int) -> None:
            if second < 300:
                live.commit(("a", "orders", 0, live.ends["orders", 0]))
            if reads_mail:
                live.commit(("a", "mail", 0, live.ends["mail", 0]))
            if second == 1200:
                live.topics(mail=1)

        return story(live, happens)

    def test_its_trouble_ended_with_it(self) -> None:
        opened, ended = self.decided(reads_mail=True)

        assert (opened.decision.act, ended.decision.act) == (Act.OPEN, Act.CLOSE)
        assert ended.number is not None
        assert ended.gone_topics == {"orders"}

    def test_a_group_of_that_topic_alone_is_gone_with_it(self) -> None:
        opened, ended = self.decided(reads_mail=False)

        assert (opened.decision.act, ended.decision.act) == (Act.OPEN, Act.CLOSE)
        assert ended.number is None
        assert ended.gone_topics == {"orders"}

    def test_trouble_with_a_topic_that_is_only_hidden_goes_on(self) -> None:
        live = Live()
        live.topics(orders=1, mail=1)

        def happens(second: int) -> None:
            if second < 300:
                live.commit(("a", "orders", 0, live.ends["orders", 0]))
            live.commit(("a", "mail", 0, live.ends["mail", 0]))
            if second == 900:
                live.topics("orders", mail=1)
            if second == 1300:
                live.topics(mail=1)  # the right is back, and the topic is gone

        opened, ended = story(live, happens)

        assert (opened.decision.act, ended.decision.act) == (Act.OPEN, Act.CLOSE)
        assert ended.before.good_since_ms is not None
        assert ended.before.good_since_ms >= NOON_MS + 1_300_000
        assert ended.gone_topics == {"orders"}


@pytest.mark.parametrize("anew", [True, False])
def test_a_group_that_is_deleted_and_made_anew_has_not_healed(anew) -> None:
    live = Live()
    live.topics(orders=1)

    def happens(second: int) -> None:
        if second == 1000 and anew:
            live.commit(("a", "orders", 0, -1))  # as Kafka's record of a deleted offset is read
        if second < 300 or second >= 1000:
            live.commit(("a", "orders", 0, live.ends["orders", 0]))
        if second == 1020:
            live.restart_collector()  # which changes nothing

    opened, ended = story(live, happens)

    assert (opened.decision.act, ended.decision.act) == (Act.OPEN, Act.CLOSE)
    assert (opened.begun_anew, ended.begun_anew) == (False, anew)
    assert ended.gone_topics == set()


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("anew", [True, False])
def test_what_was_made_anew_while_lagwatch_was_down_has_not_healed(anew, watched) -> None:
    live = Live()
    live.topics(orders=1)
    if watched:  # before the trouble, as the checkpoint says
        live.monitor.apply(Backlog(read=0, total=0, ready=True), EpochMs(live.now_ms))
    live.wait(1)
    live.commit(("a", "orders", 0, 10))
    live.wait(1)
    live.commit(("a", "orders", 0, 20))
    live.wait(30)
    named_ms = EpochMs(live.now_ms)
    kept = open_before(named_ms, log_end=100)
    live.wait(10)
    if anew:
        live.commit(("a", "orders", 0, -1))
    live.monitor.apply(Backlog(read=0, total=0, ready=True), EpochMs(live.now_ms))
    live.commit(("a", "orders", 0, 100))

    (ended,) = decided_after_a_start(live, kept, for_s=30)

    assert ended.decision.act is Act.CLOSE
    assert ended.begun_anew == (anew and watched), "the offsets topic may hold the last commit only"


def test_a_topic_that_is_shorter_than_before_lagwatch_was_down_was_made_anew() -> None:
    live = Live()
    live.topics(orders=1)
    live.monitor.apply(Backlog(read=0, total=0, ready=True), EpochMs(live.now_ms))
    live.commit(("a", "orders", 0, 100))
    opened_ms = EpochMs(live.now_ms - 60_000)
    kept = open_before(opened_ms, log_end=101)

    (ended,) = decided_after_a_start(live, kept, for_s=30)

    assert ended.begun_anew


def open_before(at_ms: EpochMs, *, log_end: int) -> Kept:
    """The open incident of an earlier process, whose notice of that instant names a log end."""
    incident = Incident(
        since_ms=at_ms, opened_ms=at_ms, severity=GroupStatus.ERR, notified=GroupStatus.ERR
    )
    return Kept(
        cluster="here",
        group="a",
        incident="i1",
        policy="all",
        complete=0.0,
        state=State(incident=incident),
        named={("orders", 0): Named(at_ms=at_ms, log_end=log_end)},
    )


def decided_after_a_start(live: Live, kept: Kept, *, for_s: int) -> list[Decided]:
    """What is decided about an incident of before, under a limit of 10 messages."""
    queries = SnapshotQueries({"here": live.monitor}, health=tuple)
    outlook = partial(queries.outlook, "here")
    book = PolicyBook(AlertsSettings(policies={"all": {"max_lag": 10, "close_for_s": 0}}))
    watch = Watch("here", book, [kept], {}, started_ms=live.now_ms)
    decided: list[Decided] = []
    for _ in range(0, for_s, 5):
        live.wait(5)
        live.commit((kept.group, "orders", 0, 100))
        found = watch.decide(live.judge(), EpochMs(live.now_ms), lambda _: False, outlook)
        watch.apply(found)
        decided += found
    return decided


def test_a_group_of_one_commit_that_misses_a_limit_is_alerted() -> None:
    live = Live()
    live.topics(orders=1)
    live.monitor.apply(Backlog(read=0, total=0, ready=True), EpochMs(live.now_ms))
    came_ms = live.now_ms + 305_000

    def happens(second: int) -> None:
        if second == 300:
            live.commit(("a", "orders", 0, 100))

    opened, *_ = story(live, happens, max_lag=300)

    assert opened.after.incident is not None
    assert opened.after.incident.opened_ms - came_ms <= 10_000
    assert opened.after.incident.since_at_least


def test_a_limit_that_the_first_group_misses_later_than_the_start_is_missed_since_then() -> None:
    live = Live()
    live.topics(orders=1)

    def happens(second: int) -> None:
        behind = 80 if second >= 900 else 0
        live.commit(("a", "orders", 0, live.ends["orders", 0] - behind))

    opened, *_ = story(live, happens, max_lag=50)

    assert opened.after.incident is not None
    assert opened.after.incident.since_ms >= NOON_MS + 900_000
    assert not opened.after.incident.since_at_least


def test_a_topic_in_which_a_limit_was_missed_and_that_is_deleted_has_not_caught_up() -> None:
    live = Live()
    live.topics(orders=1, mail=1)

    def happens(second: int) -> None:
        live.commit(("a", "orders", 0, live.ends["orders", 0]))
        if second < 1200:
            live.commit(("a", "mail", 0, live.ends["mail", 0] - 80))
        if second == 1200:
            live.topics(orders=1)

    *_, ended = story(live, happens, max_lag=50)

    assert ended.decision.act is Act.CLOSE
    assert ended.gone_topics == {"mail"}


@pytest.mark.parametrize("leaves_first", [True, False])
def test_a_group_with_a_partition_that_it_never_committed_goes_whole(leaves_first) -> None:
    live = Live()
    live.topics(orders=2)
    live.monitor.apply(Backlog(read=0, total=0, ready=True), EpochMs(live.now_ms))

    def happens(second: int) -> None:
        if second == 0:
            live.commit(("a", "orders", 0, live.ends["orders", 0]))
        if second == 30:
            live.commit(("a", "orders", 0, live.ends["orders", 0]))
            live.assign("a", ("orders", 0), ("orders", 1))
        if second == 1195 and leaves_first:
            live.describe("a", kind="classic", members=0)
        if second == 1200:
            live.commit(("a", "orders", 0, -1))
        if second == 1210:
            live.list_groups()  # it was still said to have a member until then

    decided = story(live, happens)

    ended = decided[-1]
    assert ended.decision.reason is Reason.GROUP_GONE
    assert ended.last is not None
    assert ended.last.commit_ms > 0, "how it went is not known without"
    assert [each.decision.act for each in decided].count(Act.CLOSE) == 1


HEALED = situations()["healed_with_messages_left"].notices[0]


@pytest.mark.parametrize(
    ("deleted", "kept", "said"),
    [
        (["orders"], [], "its topic orders was deleted"),
        (["mail", "orders"], [], "its 2 topics (mail, …) were deleted"),
        ([], ["orders"], "its offsets of topic orders were deleted or have expired"),
        (["a"], ["b"], "its topic a was deleted; its offsets of topic b were deleted or have"),
    ],
)
def test_a_group_whose_trouble_is_gone_is_not_ok_again(deleted, kept, said) -> None:
    gone = {"deleted_topics": deleted, "topics_without_offsets": kept}
    notice = replace(HEALED, verdict={**HEALED.verdict, **gone})

    assert headline(notice).startswith("Incident ended: ")
    assert said in headline(notice)
    assert f"did not catch up: {said}" in next(details(notice))


@pytest.mark.parametrize(
    ("deleted", "kept", "line", "sentence"),
    [
        (["orders"], [], ": its topic orders was deleted", "Its topic orders was deleted: its"),
        (
            [],
            ["orders"],
            "",
            "The group or its offsets were deleted, or its topic orders was re-created:",
        ),
        (
            ["a"],
            ["b"],
            "",
            "The group or its offsets were deleted, or its topic b was re-created: its",
        ),
        ([], [], "", "The group, its offsets or its topics were deleted: its last"),
    ],
)
def test_a_group_that_is_gone_says_what_was_deleted(deleted, kept, line, sentence) -> None:
    deleted_group = situations()["deleted"].notices[0]
    gone = {"deleted_topics": deleted, "topics_without_offsets": kept}
    notice = replace(deleted_group, verdict={**deleted_group.verdict, **gone})

    assert headline(notice) == headline(deleted_group) + line.replace(": its", ", its")
    assert next(details(notice)).startswith(sentence)


def test_a_group_that_has_begun_anew_is_not_ok_again() -> None:
    notice = replace(HEALED, verdict={**HEALED.verdict, "begun_anew": True})

    assert headline(notice).startswith("Incident ended: ")
    assert "its offsets were deleted or its topic re-created" in headline(notice)
