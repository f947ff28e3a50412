"""The names of other exporters, with the labels their dashboards count on."""

import re
import shutil
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lagwatch.core.model import EpochMs, GroupInfo, RuleSet
from lagwatch.metrics.metric import Format
from lagwatch.metrics.profiles import PROFILES
from tests.support.scraped import Cluster, Scrape, info, text

ROOT = Path(__file__).parents[2]
RECORDED = tomllib.loads((ROOT / "tests/data/exporter_series.toml").read_text(encoding="utf-8"))
"""Of each exporter `series` (name → labels), the labels that we add, and what is `left_out`: words
of the manual by name."""
CLUSTER = {"cluster": "here"}
ROW = {"topic": "t", "partition": "0"}


def cluster() -> Cluster:
    """A group that stopped with a lag of 40; nothing is known about its second partition."""
    return Cluster(
        topics={"t": [(10, 100), (-1, -1)]},
        commits={("g", "t", 0): 60, ("g", "t", 1): 5},
        infos=[info("g", holds=[("t", 0)])],
        silent_s=60,
        rules=RuleSet.BURROW,
    )


def test_no_profile_is_on_unless_it_is_asked_for() -> None:
    names = {sample.name for sample in Scrape(cluster()).samples}

    assert [n for n in names if not n.startswith(("lagwatch_", "process_", "python_"))] == []


@pytest.mark.parametrize(
    ("name", "value", "labels"),
    [
        ("burrow_kafka_consumer_lag_total", 40, {"consumer_group": "g"}),
        ("burrow_kafka_consumer_status", 3, {"consumer_group": "g"}),
        ("burrow_kafka_consumer_partition_lag", 40, {"consumer_group": "g", **ROW}),
        ("burrow_kafka_topic_partition_offset", 100, ROW),
    ],
)
def test_burrow(name, value, labels) -> None:
    scrape = Scrape(cluster(), burrow=True)

    assert scrape.value(name) == value
    assert scrape.labels(name) == [CLUSTER | labels]


@pytest.mark.parametrize(
    "name", ["burrow_kafka_topic_partition_status", "burrow_kafka_consumer_current_offset"]
)
def test_burrow_tells_status_and_offset_once_the_window_is_full(name) -> None:
    early, late = cluster(), cluster()
    snapshot = late.monitor.snapshot
    assert snapshot is not None
    snapshot.rows.commits[:] = snapshot.intervals

    assert Scrape(early, burrow=True).values(name) == []
    assert Scrape(late, burrow=True).values(name, partition="0") in ([4], [60])


@pytest.mark.parametrize(
    ("name", "value", "labels"),
    [
        ("kafka_topic_partitions", 2, {"topic": "t"}),
        ("kafka_topic_partition_current_offset", 100, ROW),
        ("kafka_topic_partition_oldest_offset", 10, ROW),
        ("kafka_consumergroup_current_offset", 60, {"consumergroup": "g", **ROW}),
        ("kafka_consumergroup_current_offset_sum", 65, {"consumergroup": "g", "topic": "t"}),
        ("kafka_consumergroup_lag", 40, {"consumergroup": "g", **ROW}),
        ("kafka_consumergroup_lag_sum", 40, {"consumergroup": "g", "topic": "t"}),
        ("kafka_consumergroup_members", 1, {"consumergroup": "g"}),
        ("kafka_topic_partition_leader", 1, ROW),
    ],
)
def test_kafka_exporter(name, value, labels) -> None:
    scrape = Scrape(cluster(), kafka_exporter=True)

    assert scrape.values(name, **labels) == [value]
    assert CLUSTER | labels in scrape.labels(name)


def with_everything() -> Cluster:
    """A cluster of which every series of every exporter has a value."""
    busy = info("g", holds=[("t", 0)])
    idle = replace(busy.members[0], member_id="m-2", assignment=())
    made = Cluster(
        topics={"t": [(10, 100)]},
        commits={("g", "t", 0): 60},
        infos=[replace(busy, members=(*busy.members, idle))],
        silent_s=60,
        rules=RuleSet.BURROW,
    )
    snapshot = made.monitor.snapshot
    assert snapshot is not None
    snapshot.rows.commits[:] = snapshot.intervals  # its window is full
    return made


def printed_by(profile: str) -> Scrape:
    """All that is printed with the names of one exporter on."""
    settings: dict[str, Any] = {profile: True}
    return Scrape(with_everything(), **settings)


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_a_profile_prints_the_series_of_its_exporter_with_their_labels_and_no_other(
    profile: str,
) -> None:
    recorded = RECORDED[profile]
    own = {sample.name for sample in Scrape(with_everything()).samples}

    scrape = printed_by(profile)

    printed = {
        sample.name: sorted(sample.labels) for sample in scrape.samples if sample.name not in own
    }
    assert printed == {
        name: sorted([*labels, *recorded["adds"]]) for name, labels in recorded["series"].items()
    }


def test_what_a_profile_leaves_out_is_not_printed_and_is_in_the_manual() -> None:
    manual = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = {
        found[1]: found[2]
        for found in re.finditer(r"^\| `metrics\.(\w+)` \|.*\| (.*) \|$", manual, re.MULTILINE)
    }

    assert set(rows) == set(PROFILES) == set(RECORDED)
    for profile, recorded in RECORDED.items():
        names = {sample.name for sample in printed_by(profile).samples}
        for name, words in recorded.get("left_out", {}).items():
            assert name not in names
            assert words in rows[profile], f"{name}: {words}"


MEMBER = {"member_host": "/10.0.0.7", "consumer_id": "m-1", "client_id": "client"}


@pytest.mark.parametrize(
    ("name", "value", "labels"),
    [
        ("kafka_consumergroup_group_offset", 60, {"group": "g", **ROW, **MEMBER}),
        ("kafka_consumergroup_group_lag", 40, {"group": "g", **ROW, **MEMBER}),
        ("kafka_consumergroup_group_lag_seconds", 60.8, {"group": "g", **ROW, **MEMBER}),
        ("kafka_consumergroup_group_max_lag", 40, {"group": "g"}),
        ("kafka_consumergroup_group_max_lag_seconds", 60.8, {"group": "g"}),
        ("kafka_consumergroup_group_sum_lag", 40, {"group": "g"}),
        ("kafka_consumergroup_group_topic_sum_lag", 40, {"group": "g", "topic": "t"}),
        ("kafka_consumergroup_group_state", 3, {"group": "g"}),
        ("kafka_partition_latest_offset", 100, ROW),
        ("kafka_partition_earliest_offset", 10, ROW),
    ],
)
def test_kafka_lag_exporter(name, value, labels) -> None:
    scrape = Scrape(cluster(), kafka_lag_exporter=True)

    assert scrape.values(name, **labels) == [pytest.approx(value, abs=0.02)]
    assert {"cluster_name": "here", **labels} in scrape.labels(name)


def test_kafka_lag_exporter_keeps_the_labels_of_nobody() -> None:
    alone = Cluster(topics={"t": [(0, 9)]}, commits={("g", "t", 0): 4})

    (labels,) = Scrape(alone, kafka_lag_exporter=True).labels("kafka_consumergroup_group_lag")

    nobody = {"member_host": "", "consumer_id": "", "client_id": ""}
    assert labels == {"cluster_name": "here", "group": "g", **ROW, **nobody}


GROUP_TOPIC = {"group_id": "g", "topic_name": "t"}


@pytest.mark.parametrize(
    ("name", "value", "labels"),
    [
        ("consumer_group_members", 1, {"group_id": "g"}),
        ("consumer_group_topic_members", 1, GROUP_TOPIC),
        ("consumer_group_topic_assigned_partitions", 1, GROUP_TOPIC),
        ("consumer_group_topic_offset_sum", 65, GROUP_TOPIC),
        ("consumer_group_topic_lag", 40, GROUP_TOPIC),
        ("consumer_group_topic_partition_lag", 40, {**GROUP_TOPIC, "partition_id": "0"}),
        ("topic_partition_low_water_mark", 10, {"topic_name": "t", "partition_id": "0"}),
        ("topic_partition_high_water_mark", 100, {"topic_name": "t", "partition_id": "0"}),
        (
            "consumer_group_info",
            1,
            {
                "group_id": "g",
                "protocol": "range",
                "protocol_type": "consumer",
                "state": "Stable",
                "coordinator_id": "1",
            },
        ),
    ],
)
def test_kminion(name, value, labels) -> None:
    scrape = Scrape(cluster(), kminion=True)

    assert scrape.values(f"kminion_kafka_{name}", **labels) == [value]
    assert CLUSTER | labels in scrape.labels(f"kminion_kafka_{name}")


def kminion(*infos: GroupInfo) -> Scrape:
    """What KMinion's names say about groups of which each has committed to partition 0 of t."""
    commits = {(info.group, "t", 0): 4 for info in infos}
    return Scrape(Cluster(topics={"t": [(0, 9)]}, commits=commits, infos=infos), kminion=True)


def test_kminion_says_one_of_stable_groups_only_and_of_no_coordinator_that_is_unknown() -> None:
    idle = replace(info("idle", "Empty"), coordinator=-1)

    scrape = kminion(info("busy", holds=[("t", 0)]), idle)

    assert scrape.value("kminion_kafka_consumer_group_info", group_id="busy") == 1
    assert (
        scrape.value(
            "kminion_kafka_consumer_group_info", group_id="idle", state="Empty", coordinator_id=""
        )
        == 0
    )


def test_kminion_has_members_of_each_group_and_no_line_for_members_that_are_not_there() -> None:
    scrape = kminion(info("busy", holds=[("t", 0)]), info("idle", "Empty"))

    assert scrape.value("kminion_kafka_consumer_group_members", group_id="idle") == 0
    assert scrape.values("kminion_kafka_consumer_group_empty_members") == []
    for name in ("topic_members", "topic_assigned_partitions"):
        (labels,) = scrape.labels(f"kminion_kafka_consumer_group_{name}")
        assert labels["group_id"] == "busy"


def test_kminion_counts_members_that_hold_nothing_and_topics_without_a_commit() -> None:
    lone = info("g", holds=[("fresh", 0)])
    two = replace(lone, members=(*lone.members, replace(lone.members[0], assignment=())))

    scrape = kminion(two)

    assert scrape.value("kminion_kafka_consumer_group_empty_members", group_id="g") == 1
    assert scrape.value("kminion_kafka_consumer_group_topic_members", topic_name="fresh") == 1


def test_kminion_is_up_while_the_data_are_fresh() -> None:
    fresh, late = cluster(), cluster()
    late.monitor.judge(EpochMs(late.now_ms + 60_000))

    assert Scrape(fresh, kminion=True).value("kminion_exporter_up", cluster="here") == 1
    assert Scrape(late, kminion=True).value("kminion_exporter_up", cluster="here") == 0


@pytest.mark.parametrize("form", list(Format), ids=lambda form: form.name.lower())
def test_all_profiles_together_are_one_sound_answer(form) -> None:
    every = dict.fromkeys(PROFILES, True)

    scrape = Scrape(cluster(), form=form, **every)

    assert min(sample.value for sample in scrape.samples) >= 0
    assert len(scrape.families) > len(Scrape(cluster(), form=form).families)


def test_the_budget_holds_for_profiles_too() -> None:
    scrape = Scrape(cluster(), partition_budget=1, kafka_exporter=True, kminion=True)

    assert len(scrape.labels("kafka_consumergroup_current_offset")) == 1
    assert scrape.value("kafka_consumergroup_lag_sum") == 40


def test_promtool_objects_to_the_names_of_others_only() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")

    flags: dict[str, Any] = dict.fromkeys(PROFILES, True)
    checked = subprocess.run(
        [promtool, "check", "metrics"],
        input=text(cluster(), **flags),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    objected = re.findall(r"^(\w+) ", checked.stdout + checked.stderr, re.MULTILINE)
    assert objected, "burrow_kafka_consumer_lag_total is a gauge"
    assert all(name.startswith(("burrow_", "kafka_", "kminion_")) for name in objected), objected
