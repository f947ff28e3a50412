"""What is not delivered is seen everywhere, also after a restart, and sent again by a command."""

import json
import urllib.request
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lagwatch.cli import app
from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import create_topic, produce, unique
from tests.support.receiver import Reply, receiving
from tests.support.served import Served, serving
from tests.support.traffic import committing, running
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(300)
_QUICK = '[evaluator]\nstop_after_s = 10\nstall_after_s = 10\n[history]\nstore = "none"\n'


def said(served: Served, *words: str) -> str:
    done = CliRunner().invoke(app, ["alert", *words, "--url", served.base])
    assert done.exit_code == 0, done.output
    return done.stdout


def listed(served: Served, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(said(served, *words, "--json"))
    return found


def undelivered(served: Served) -> float | None:
    """The value of the metric; None while there is none."""
    with urllib.request.urlopen(f"{served.base}/metrics", timeout=30) as answer:  # noqa: S310 loopback
        lines = answer.read().decode().splitlines()
    name = 'lagwatch_notices_undelivered{channel="hook"} '
    return next((float(line.removeprefix(name)) for line in lines if line.startswith(name)), None)


def test_what_was_given_up_is_counted_after_a_restart_and_sent_by_a_command(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic, group = create_topic(kafka, "refused"), unique("stalled")
    produce(kafka, topic, 100)
    with receiving(*[Reply(status=400, body="no such room")] * 1000) as receiver:
        sections = (
            f'{_QUICK}[alerts]\nfile = "{tmp_path / "alerts.sqlite"}"\ngroup_wait_s = 0.1\n'
            'time_zone = "Asia/Tokyo"\n'
            f'[alerts.policies.all]\ngroup = "^{group}$"\n'
            f'[alerts.webhook.hook]\nurl = "{receiver.url}"\ngive_up_after_s = 1\n'
        )

        def service() -> AbstractContextManager[Served]:
            cluster = {"commits": "offsets-topic", "log_end_interval_s": 1}
            return serving(kafka.bootstrap_servers, cluster=cluster, sections=sections)

        with running(committing(kafka, group, topic, lambda _: 1, every_s=1.0)):
            with service() as served:
                served.wait_ready()
                eventually(lambda: undelivered(served) == 1, "the metric", timeout_s=240)
                eventually(
                    lambda: len(listed(served, "notices", "--state", "dead")) == 1,
                    "it is given up, after it was tried again",
                    timeout_s=60,
                )
                (given_up,) = listed(served, "notices", "--state", "dead")
                (incident,) = listed(served, "incidents", "--group", group)
                output = said(served, "acknowledge", incident["id"], "--author", "anna")
                eventually(
                    lambda: any("channel hook" in each for each in _problems(served)),
                    "the problem in /readyz",
                    timeout_s=60,
                )
            with service() as served:
                served.wait_ready()
                after = undelivered(served)
                (kept,) = listed(served, "incidents", "--group", group)
                shown = said(served, "incidents", "--group", group)
                words = ["alert", "retry", "--channel", "hook", "--to", "nope"]
                wrong = CliRunner().invoke(app, [*words, "--url", served.base])
                receiver.replies.clear()
                said(served, "retry", "--channel", "hook")
                eventually(lambda: undelivered(served) == 0, "the delivery", timeout_s=60)
                eventually(lambda: not _problems(served), "the end of the problem", timeout_s=60)

    assert (given_up["group"], given_up["channel"]) == (group, "hook")
    assert "400" in given_up["last_error"]
    assert "no such room" in given_up["last_error"]
    assert "acknowledged by anna" in output
    assert after == 1
    assert "JST" in shown
    assert "'nope' is not known" in wrong.output
    assert (kept["id"], kept["acknowledged_by"]) == (incident["id"], "anna")
    assert receiver.notices[0]["group"] == group


def _problems(served: Served) -> list[str]:
    return [each for each in served.health()["problems"] if each.startswith("alerts")]
