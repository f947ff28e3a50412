"""The story of a group over HTTP: from memory, with and without a history."""

from lagwatch.core.model import EpochMs
from lagwatch.monitor.story import Stories, Story
from lagwatch.ports.queries import GroupEvent
from lagwatch_api import create_app
from tests.support.api_doubles import (
    GivenCluster,
    GivenQueries,
    GivenSettings,
    RecordingCommands,
    group_verdict,
)
from tests.support.serving import Answered, ask


class Cluster:
    """A cluster with one event."""

    def __init__(self) -> None:
        self.story = Story()
        self.story.add(
            GroupEvent(at_ms=EpochMs(7), group="a/b", event="member_left", count=1, detail="[]")
        )


def served(path: str, *, history: object = None) -> Answered:
    app = create_app(
        GivenQueries({"c1": GivenCluster(verdicts={"quiet": group_verdict()})}),
        RecordingCommands(),
        GivenSettings(),
        events=Stories({"c1": Cluster()}),
        history=history,  # type: ignore[arg-type]  # it is not asked
        hostname="h",
        version="0",
    )
    return ask(app, path)


POINT = {
    "at_ms": 7,
    "cluster": "c1",
    "group": "a/b",
    "topic": None,
    "partition": None,
    "event": "member_left",
    "before": None,
    "after": None,
    "rule": None,
    "lag": None,
    "count": 1,
    "detail": "[]",
}


def test_without_a_history_the_events_of_a_group_come_from_memory() -> None:
    answered = served("/api/v1/clusters/c1/groups/a%2Fb/events")

    assert answered.status == 200
    assert answered.json["points"] == [POINT]
    assert answered.json["about"] == {"cluster": "c1", "group": "a/b", "source": "memory"}


def test_with_a_history_memory_is_asked_for() -> None:
    path = "/api/v1/clusters/c1/groups/a%2Fb/events?source=memory"

    answered = served(path, history=object())

    assert answered.json["points"] == [POINT]


def test_a_group_without_events_has_none_and_what_is_not_known_is_said() -> None:
    quiet = served("/api/v1/clusters/c1/groups/quiet/events")
    nobody = served("/api/v1/clusters/c1/groups/nobody/events")
    nowhere = served("/api/v1/clusters/c9/groups/quiet/events")

    assert (quiet.status, quiet.json["points"]) == (200, [])
    assert (nobody.status, nobody.json["message"]) == (404, "group 'nobody on c1' is not known")
    assert nowhere.status == 404
