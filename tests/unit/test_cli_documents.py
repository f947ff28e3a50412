"""`explain` and `replay`: what they take, what they say, and where they say a document is wrong."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lagwatch.cli import app

VECTORS = Path(__file__).parents[1] / "vectors"
WINDOW = {
    "offsets": [
        {"offset": 100, "order": 1, "timestamp": 100_000, "lag": 50},
        {"offset": 100, "order": 2, "timestamp": 200_000, "lag": 60},
    ],
    "broker_offsets": [150, 165],
    "current_lag": 65,
    "time_now": 201,
    "allowed_lag": 0,
}
SCRIPT = {
    "intervals": 3,
    "min_distance_s": 1,
    "ops": [
        {"op": "broker", "offset": 100},
        {"op": "commit", "offset": 40, "order": 5},
        {"op": "commit", "offset": 70, "order": 6, "ts_ms_after_base": 2000},
    ],
}


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [*arguments], input=stdin)


def answered(command: str, document: object) -> object:
    result = run(command, "-", "--json", stdin=json.dumps(document))
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def changed(template: dict[str, object], **changes: object) -> dict[str, object]:
    return {**template, **changes}


def without(template: dict[str, object], name: str) -> dict[str, object]:
    return {key: value for key, value in template.items() if key != name}


class TestVectors:
    def test_every_recorded_window_gets_burrows_verdict(self) -> None:
        path = VECTORS / "evaluator_windows.json"
        recorded = json.loads(path.read_text())

        result = run("explain", str(path), "--json")

        answers = json.loads(result.stdout)
        assert result.exit_code == 0
        assert len(answers) == len(recorded) == 600
        wrong = [
            (index, answer["status"], window["status"])
            for index, (answer, window) in enumerate(zip(answers, recorded, strict=True))
            if answer["status"] != window["status"]
        ]
        assert not wrong
        assert {tuple(answer) for answer in answers} == {("status", "rule", "evidence", "sentence")}

    @pytest.mark.slow
    def test_every_recorded_replay_ends_in_burrows_window(self) -> None:
        path = VECTORS / "window_operations.json"
        recorded = json.loads(path.read_text())

        result = run("replay", str(path), "--json")

        answers = json.loads(result.stdout)
        names = (
            *("group_found", "window", "broker_offsets"),
            *("current_lag", "last_commit_ms_after_base"),
        )
        assert result.exit_code == 0
        kept = [{name: each[name] for name in names} for each in answers]
        assert kept == [{name: each[name] for name in names} for each in recorded]
        assert {tuple(each) for each in answers} == {(*names, "verdict")}
        assert len(answers) == 400


class TestForms:
    @pytest.mark.parametrize(("command", "item"), [("explain", WINDOW), ("replay", SCRIPT)])
    def test_one_object_is_answered_by_one_object(self, command: str, item: object) -> None:
        assert isinstance(answered(command, item), dict)

    @pytest.mark.parametrize(("command", "item"), [("explain", WINDOW), ("replay", SCRIPT)])
    @pytest.mark.parametrize("number", [0, 1, 3])
    def test_an_array_is_answered_by_an_array(
        self, command: str, item: object, number: int
    ) -> None:
        answers = answered(command, [item] * number)

        assert isinstance(answers, list)
        assert len(answers) == number

    def test_lines_are_answered_by_an_array_in_their_order(self) -> None:
        caught_up = changed(WINDOW, current_lag=0)
        lines = "\n\n".join(json.dumps(item) for item in (WINDOW, caught_up, WINDOW)) + "\r\n"

        result = run("explain", "-", "--json", stdin=lines)

        assert [answer["status"] for answer in json.loads(result.stdout)] == [
            "STALL",
            "OK",
            "STALL",
        ]

    def test_a_name_with_odd_line_separators_does_not_split_a_line(self) -> None:
        named = json.dumps(changed(WINDOW, name="a\u2028b"), ensure_ascii=False)

        result = run("explain", "-", "--json", stdin=f"{named}\n{named}\n")

        assert len(json.loads(result.stdout)) == 2

    def test_an_object_may_span_lines(self) -> None:
        result = run("explain", "-", "--json", stdin=json.dumps(WINDOW, indent=2))

        assert json.loads(result.stdout)["rule"] == "stalled"

    def test_a_byte_order_mark_does_no_harm(self, tmp_path: Path) -> None:
        path = tmp_path / "window.json"
        path.write_text(json.dumps(WINDOW), encoding="utf-8-sig")

        assert run("explain", str(path)).exit_code == 0


class TestExplain:
    def test_the_verdict_comes_with_the_rule_and_the_numbers_it_saw(self) -> None:
        assert answered("explain", WINDOW) == {
            "status": "STALL",
            "rule": "stalled",
            "evidence": {
                "current_lag": 65,
                "start_offset": 100,
                "end_offset": 100,
                "start_lag": 50,
                "end_lag": 60,
                "window_span_ms": 100_000,
                "commits": 2,
            },
            "sentence": (
                "offset 100 unchanged over 2 commits in 1 min 40 s while the log grew by 15"
            ),
        }

    def test_people_read_verdict_rule_and_numbers(self) -> None:
        result = run("explain", "-", stdin=json.dumps([WINDOW, changed(WINDOW, time_now=9_000)]))

        assert "0: STALL  stalled" in result.stdout
        assert "offset 100 unchanged over 2 commits in 1 min 40 s" in result.stdout
        assert "1: STOP  stopped" in result.stdout
        assert "silent_ms          8,800.000 s" in result.stdout

    def test_fields_that_are_not_used_are_ignored(self) -> None:
        assert answered("explain", changed(WINDOW, status="OK", more=[1])) == answered(
            "explain", WINDOW
        )

    def test_allowed_lag_is_in_messages_and_0_when_absent(self) -> None:
        assert answered("explain", without(WINDOW, "allowed_lag")) == answered("explain", WINDOW)
        allowed = answered("explain", changed(WINDOW, allowed_lag=65))
        assert isinstance(allowed, dict)
        assert allowed["rule"] == "lag_within_allowed"

    def test_empty_slots_are_left_out(self) -> None:
        slots = [None, None, *WINDOW["offsets"]]  # type: ignore[misc]  # a JSON document

        assert answered("explain", changed(WINDOW, offsets=slots)) == answered("explain", WINDOW)

    def test_a_lag_that_is_not_known_is_judged_as_unknown(self) -> None:
        answer = answered("explain", changed(WINDOW, current_lag=None))

        assert isinstance(answer, dict)
        assert (answer["status"], answer["rule"]) == ("UNKNOWN", "log_end_unknown")

    def test_no_commit_at_all_is_ok(self) -> None:
        answer = answered("explain", changed(WINDOW, offsets=[]))

        assert isinstance(answer, dict)
        assert (answer["status"], answer["rule"]) == ("OK", "never_committed")

    def test_windows_are_not_limited_to_the_ring_of_the_service(self) -> None:
        entries = [
            {"offset": position, "timestamp": position * 1000, "lag": position + 1}
            for position in range(5_000)
        ]
        long = changed(WINDOW, offsets=entries, time_now=5_000)

        assert answered("explain", [WINDOW, long, WINDOW])[1]["rule"] == "lag_not_decreasing"  # type: ignore[index]  # a JSON document

    @pytest.mark.parametrize(
        ("field", "item"),
        [
            ("$", 5),
            ("$", None),
            ("offsets", without(WINDOW, "offsets")),
            ("offsets", changed(WINDOW, offsets={})),
            ("offsets[0]", changed(WINDOW, offsets=[5])),
            ("offsets[0].offset", changed(WINDOW, offsets=[{"timestamp": 1}])),
            ("offsets[0].offset", changed(WINDOW, offsets=[{"offset": -1, "timestamp": 1}])),
            ("offsets[0].timestamp", changed(WINDOW, offsets=[{"offset": 1}])),
            ("offsets[0].timestamp", changed(WINDOW, offsets=[{"offset": 1, "timestamp": 1.5}])),
            ("offsets[0].timestamp", changed(WINDOW, offsets=[{"offset": 1, "timestamp": "1"}])),
            ("offsets[0].timestamp", changed(WINDOW, offsets=[{"offset": 1, "timestamp": 2**62}])),
            (
                "offsets[0].lag",
                changed(WINDOW, offsets=[{"offset": 1, "timestamp": 1, "lag": True}]),
            ),
            ("offsets[0].lag", changed(WINDOW, offsets=[{"offset": 1, "timestamp": 1, "lag": -1}])),
            ("broker_offsets", without(WINDOW, "broker_offsets")),
            ("broker_offsets[1]", changed(WINDOW, broker_offsets=[1, "2"])),
            ("current_lag", without(WINDOW, "current_lag")),
            ("current_lag", changed(WINDOW, current_lag=2**63)),
            ("time_now", without(WINDOW, "time_now")),
            ("time_now", changed(WINDOW, time_now=10**16)),
            ("time_now", changed(WINDOW, time_now=None)),
            ("allowed_lag", changed(WINDOW, allowed_lag=-1)),
        ],
    )
    def test_the_item_and_the_field_at_fault_are_named(self, field: str, item: object) -> None:
        result = run("explain", "-", "--json", stdin=json.dumps([WINDOW, WINDOW, WINDOW, item]))

        assert result.exit_code == 2
        assert result.stdout == ""
        assert result.stderr.startswith(f"lagwatch: item 3, field {field!r}: ")
        assert len(result.stderr.splitlines()) == 1


class TestReplay:
    def test_the_window_is_shown_with_empty_slots_in_front(self) -> None:
        answer = answered("replay", SCRIPT)

        assert isinstance(answer, dict)
        assert without(answer, "verdict") == {
            "group_found": True,
            "window": [
                None,
                {"offset": 40, "order": 5, "ts_ms_after_base": 0, "lag": 60},
                {"offset": 70, "order": 6, "ts_ms_after_base": 2000, "lag": 30},
            ],
            "broker_offsets": [100],
            "current_lag": 30,
            "last_commit_ms_after_base": 2000,
        }

    def test_without_an_accepted_commit_there_is_no_group(self) -> None:
        assert answered("replay", changed(SCRIPT, ops=[])) == {
            "group_found": False,
            "window": None,
            "broker_offsets": None,
            "current_lag": 0,
            "last_commit_ms_after_base": 0,
            "verdict": None,
        }

    @pytest.mark.parametrize(
        ("flags", "rule"), [((), "lag_not_decreasing"), (("--rules", "lagwatch"), "progressing")]
    )
    def test_the_window_is_judged_by_the_rules_asked_for(self, flags, rule) -> None:
        behind = [
            {"op": "broker", "offset": 100},
            {"op": "commit", "offset": 40, "order": 5, "ts_ms_after_base": 0},
            {"op": "broker", "offset": 140},
            {"op": "commit", "offset": 70, "order": 6, "ts_ms_after_base": 2000},
        ]

        result = run("replay", "-", "--json", *flags, stdin=json.dumps(changed(SCRIPT, ops=behind)))

        verdict = json.loads(result.stdout)["verdict"]
        assert tuple(verdict) == ("status", "rule", "evidence", "sentence")
        assert verdict["rule"] == rule

    def test_people_read_a_table(self) -> None:
        result = run("replay", "-", stdin=json.dumps(SCRIPT))

        assert "current lag 30" in result.stdout
        assert "2,000" in result.stdout

    def test_a_distance_may_be_a_fraction_of_a_second(self) -> None:
        near = [
            *SCRIPT["ops"],
            {"op": "commit", "offset": 80, "order": 7, "ts_ms_after_base": 2400},
        ]  # type: ignore[misc]  # a JSON document

        merged = answered("replay", changed(SCRIPT, ops=near, min_distance_s=0.5))
        kept = answered("replay", changed(SCRIPT, ops=near, min_distance_s=0.25))

        assert isinstance(merged, dict)
        assert isinstance(kept, dict)
        assert [entry["offset"] for entry in merged["window"] if entry] == [40, 80]
        assert [entry["offset"] for entry in kept["window"] if entry] == [40, 70, 80]

    @pytest.mark.parametrize(
        ("field", "item"),
        [
            ("$", []),
            ("intervals", without(SCRIPT, "intervals")),
            ("intervals", changed(SCRIPT, intervals=0)),
            ("intervals", changed(SCRIPT, intervals=101)),
            ("min_distance_s", changed(SCRIPT, min_distance_s=-1)),
            ("min_distance_s", changed(SCRIPT, min_distance_s="1")),
            ("ops", without(SCRIPT, "ops")),
            ("ops[0]", changed(SCRIPT, ops=[None])),
            ("ops[0].op", changed(SCRIPT, ops=[{"offset": 1}])),
            ("ops[0].op", changed(SCRIPT, ops=[{"op": "delete"}])),
            ("ops[0].op", changed(SCRIPT, ops=[{"op": []}])),
            ("ops[0].offset", changed(SCRIPT, ops=[{"op": "commit", "offset": "1"}])),
            ("ops[0].order", changed(SCRIPT, ops=[{"op": "commit", "order": None}])),
            ("ops[0].offset", changed(SCRIPT, ops=[{"op": "broker", "offset": -1}])),
        ],
    )
    def test_the_item_and_the_field_at_fault_are_named(self, field: str, item: object) -> None:
        result = run("replay", "-", stdin=json.dumps([SCRIPT, item]))

        assert result.exit_code == 2
        assert result.stderr.startswith(f"lagwatch: item 1, field {field!r}: ")


class TestDocuments:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "item 0, field '$': the document is empty"),
            (" \n", "item 0, field '$': the document is empty"),
            ("[1,\n2", "line 2"),
            ('{"a": 1}\n{"a": 1\n', "item 1, field '$': not JSON"),
            ('{"a": NaN}', "NaN is not JSON"),
            ("[" * 100_000, "not JSON"),
            ('{"a": ' + "1" * 5_000 + "}", "not JSON"),
            ("hello", "line 1, column 1"),
        ],
    )
    def test_what_is_not_json_is_reported_by_its_place(self, text: str, message: str) -> None:
        result = run("explain", "-", stdin=text)

        assert result.exit_code == 2
        assert message in result.stderr
        assert len(result.stderr) < 300

    def test_a_file_that_cannot_be_read_is_reported(self, tmp_path: Path) -> None:
        result = run("explain", str(tmp_path / "none.json"))

        assert result.exit_code == 2
        assert "No such file" in result.stderr

    def test_bytes_that_are_no_text_are_reported(self, tmp_path: Path) -> None:
        path = tmp_path / "binary.json"
        path.write_bytes(b"[\xff]")

        result = run("replay", str(path))

        assert result.exit_code == 2
        assert "not UTF-8: byte 1" in result.stderr
