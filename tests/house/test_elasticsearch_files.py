"""The files in `deploy/elasticsearch/` say what the code does."""

import json
from pathlib import Path
from typing import Any

import pytest

from lagwatch.config.history import RetentionSettings
from lagwatch.core.record import Kind
from lagwatch.history.elastic.__main__ import main
from lagwatch.history.elastic.indices import alias, templates

FOLDER = Path(__file__).parents[2] / "deploy" / "elasticsearch"


def document(name: str) -> Any:  # noqa: ANN401
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def test_the_index_templates_are_those_lagwatch_writes(capsys: pytest.CaptureFixture[str]) -> None:
    main([])

    printed = json.loads(capsys.readouterr().out)
    assert (
        document("index-templates.json") == printed == json.loads(json.dumps(templates("lagwatch")))
    )


def test_every_kind_with_an_end_has_a_policy_of_lagwatchs_own_age() -> None:
    ages = {
        name: int(held["policy"]["phases"]["delete"]["min_age"].removesuffix("d"))
        for name, held in document("ilm-policies.json").items()
    }

    kept = RetentionSettings()
    expected = {
        alias("lagwatch", kind): days
        for kind in Kind
        if (days := getattr(kept, f"{kind}_days")) > 0
    }
    expected["lagwatch-rollup_1h"] += 31  # counted from the first day of a month
    assert ages == expected


def test_every_policy_is_attached_by_the_custom_part_of_its_template() -> None:
    components = document("component-templates.json")
    attached = {
        name: held["template"]["settings"]["index"]["lifecycle"]["name"]
        for name, held in components.items()
    }

    assert attached == {f"{policy}@custom": policy for policy in document("ilm-policies.json")}
    taken_in = {name for held in templates("lagwatch").values() for name in held["composed_of"]}
    assert set(attached) <= taken_in


def test_only_indices_of_a_day_are_dated_by_their_name() -> None:
    dated = {
        name.removesuffix("@custom")
        for name, held in document("component-templates.json").items()
        if held["template"]["settings"]["index"]["lifecycle"].get("parse_origination_date")
    }

    daily = {Kind.SAMPLES, Kind.GROUP_SAMPLES, Kind.EVENTS, Kind.ROLLUP_5M}
    assert dated == {alias("lagwatch", kind) for kind in daily}
