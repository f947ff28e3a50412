"""The log: its form and its level."""

import io
import json
import logging

import pytest
import structlog

from lagwatch import log
from lagwatch.errors import NotFoundError


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_events_are_json_lines_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    log.configure(stream=stream)

    structlog.get_logger().warning("poll_failed", cluster="prod", retry_in_s=1.5)

    (line,) = lines(stream)
    assert list(line)[:3] == ["at", "level", "event"]
    assert line["level"] == "warning"
    assert line["event"] == "poll_failed"
    assert line["retry_in_s"] == 1.5


def test_records_of_libraries_come_out_in_the_same_form() -> None:
    stream = io.StringIO()
    log.configure(stream=stream)

    logging.getLogger("uvicorn.error").warning("closed %s", "it")

    (line,) = lines(stream)
    assert (line["event"], line["logger"]) == ("closed it", "uvicorn.error")


def test_an_exception_stays_on_one_line() -> None:
    stream = io.StringIO()
    log.configure(stream=stream)

    structlog.get_logger().error("round_failed", exc_info=ValueError("no"))

    (line,) = lines(stream)
    assert "ValueError: no" in str(line["exception"])


def test_the_console_is_for_people() -> None:
    stream = io.StringIO()
    log.configure(form="console", stream=stream)

    structlog.get_logger().info("serving", port=8000)

    assert "serving" in stream.getvalue()
    assert "port=8000" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_who_changed_what_is_written_at_every_level() -> None:
    stream = io.StringIO()
    log.configure(level="info", stream=stream)
    log.set_level("fatal")

    structlog.get_logger("lagwatch.other").error("hidden")
    structlog.get_logger(log.AUDIT).info("http_order", by="anna")

    assert [(line["event"], line["by"]) for line in lines(stream)] == [("http_order", "anna")]


def test_the_level_can_change_while_loggers_are_in_use() -> None:
    stream = io.StringIO()
    log.configure(level="info", stream=stream)
    logger = structlog.get_logger()

    logger.debug("hidden")
    log.set_level("debug")
    logger.debug("shown")
    log.set_level("error")
    logger.warning("hidden")

    assert [line["event"] for line in lines(stream)] == ["shown"]


@pytest.mark.parametrize(
    ("asked", "in_force"),
    [
        ("trace", "trace"),
        ("Debug", "debug"),
        ("INFO", "info"),
        ("warn", "warning"),
        ("Warning", "warning"),
        ("error", "error"),
        ("FATAL", "fatal"),
    ],
)
def test_levels_are_words_in_any_case(asked: str, in_force: str) -> None:
    log.configure(stream=io.StringIO())

    log.set_level(asked)

    assert log.get_level() == in_force


def test_an_unknown_level_changes_nothing() -> None:
    log.configure(level="warn", stream=io.StringIO())

    with pytest.raises(NotFoundError, match="loud"):
        log.set_level("loud")

    assert log.get_level() == "warning"


def test_libraries_write_warnings_only_whatever_the_level(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # a Kafka client without the property `debug`, made by an earlier test, switches it off
    monkeypatch.setattr(logging.getLogger("lagwatch.librdkafka"), "propagate", True)
    stream = io.StringIO()
    log.configure(level="trace", stream=stream)

    logging.getLogger("httpx").info("HTTP Request: POST https://hooks.example.com/token")
    logging.getLogger("apprise").debug("Payload: token")
    logging.getLogger("lagwatch.librdkafka").debug("of ours")
    logging.getLogger("apprise").warning("failed")

    assert [line["event"] for line in lines(stream)] == ["of ours", "failed"]


@pytest.mark.parametrize("form", ["json", "console"])
def test_secrets_are_hidden_wherever_they_occur(form: str) -> None:
    stream = io.StringIO()
    log.configure(form=form, stream=stream, secrets=["s3cret/path", 's3cret "quoted"\\', "a", ""])

    logging.getLogger("urllib3").warning("Retrying: %s", "/s3cret/path/more")
    structlog.get_logger().error(
        "failed", reason='s3cret "quoted"\\', exc_info=OSError("s3cret/path")
    )

    assert "s3cret" not in stream.getvalue()
    assert "failed" in stream.getvalue()
    assert "***/more" in stream.getvalue()
