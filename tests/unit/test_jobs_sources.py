"""Parts of the Spark data sources that need neither Spark nor a server."""

from typing import Any

import numpy as np
import pytest

from lagwatch.config.elasticsearch import ElasticsearchSettings
from lagwatch.core.wire import CommitKeys
from lagwatch.errors import HistoryError, JobError, SourceError
from lagwatch.jobs.faults import original_error
from lagwatch.jobs.sources import telegraf
from lagwatch.jobs.sources.log_ends import LogEndsReader
from lagwatch.jobs.sources.options import cluster_of, elastic_of, elastic_options
from lagwatch.jobs.sources.sink import persist
from lagwatch.jobs.stores.parquet.rows import spark_url
from lagwatch.kafka.offsets_at import OffsetsAt, newest_of


def test_keys_are_given_as_columns() -> None:
    keys = CommitKeys()
    for group, topic, partition in (("a", "t", 0), ("b", "t", 7), ("a", "u", 3)):
        keys.id_of(group, topic, partition)

    columns = keys.columns(np.array([2, 0, 1, 2], np.int32))

    assert [columns.groups[code] for code in columns.group] == ["a", "a", "b", "a"]
    assert [columns.topics[code] for code in columns.topic] == ["u", "t", "t", "u"]
    assert columns.partition.tolist() == [3, 0, 7, 3]
    assert CommitKeys().columns(np.zeros(0, np.int32)).group.size == 0


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"@timestamp": "yesterday"}, "@timestamp is 'yesterday'"),
        ({"measurement_name": "cpu"}, "measurement_name is 'cpu'"),
        ({"measurement_name": None}, "measurement_name is None"),
        ({"burrow_partition": 5}, "burrow_partition or tag is no object"),
        ({"tag": {}}, "tag.cluster is missing"),
        ({"tag": {"cluster": "c", "partition": "-1"}}, "tag.partition is '-1'"),
        ({"tag": {"cluster": "c", "partition": "9" * 30}}, f"tag.partition is '{'9' * 30}'"),
        ({"burrow_partition": {"lag": "many"}}, "lag is 'many'"),
        ({"burrow_partition": {"lag": True}}, "lag is True"),
        ({"burrow_partition": {"lag": float("inf")}}, "lag is inf"),
        ({"burrow_partition": {"offset": 2**63}}, f"offset is {2**63}"),
    ],
)
def test_a_document_that_is_none_of_telegrafs_says_why(changes: dict[str, Any], fault: str) -> None:
    document = {
        "@timestamp": "2026-11-21T04:06:56.789Z",
        "measurement_name": "burrow_partition",
        "burrow_partition": {"lag": 7},
        "tag": {"cluster": "c", "group": "g", "topic": "t", "partition": "1"},
    }
    sound = {"_index": "i", "_id": "1", "_source": document}
    bad = {"_index": "i", "_id": "2", "_source": document | changes}

    rows = telegraf.batch([sound, bad]).to_pylist()

    assert (rows[0]["fault"], rows[0]["lag"], rows[0]["at_ms"]) == (None, 7, 1795234016789)
    assert rows[1]["fault"] == fault
    assert (rows[1]["id"], rows[1]["cluster"], rows[1]["lag"]) == ("2", None, None)


def test_an_error_of_a_worker_is_found_in_what_spark_says() -> None:
    text = (
        "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most "
        'recent call last):\n  File "x.py", line 1, in read\n    raise that\n'
        "lagwatch.errors.SourceError: x may not be read; grant: Allow READ on TOPIC x\n"
        " SQLSTATE: 38000\n\tat org.apache.spark.api.python.Runner.handle(Runner.scala:1)"
    )

    error = original_error(RuntimeError(text))

    assert isinstance(error, SourceError)
    assert str(error) == "x may not be read; grant: Allow READ on TOPIC x"
    assert original_error(RuntimeError("something else")) is None


@pytest.mark.parametrize(
    ("where", "url"),
    [
        ("/var/lib/a b", "file:///var/lib/a b"),
        ("s3://bucket/lag/?region=eu", "s3a://bucket/lag"),
        ("hdfs://name:8020/lag", "hdfs://name:8020/lag"),
        ("file:///var/lag", "file:///var/lag"),
    ],
)
def test_a_folder_has_the_name_that_spark_gives_it(where: str, url: str) -> None:
    assert spark_url(where) == url


def test_options_carry_secrets_only_under_a_name_that_spark_redacts() -> None:
    settings = ElasticsearchSettings.model_validate({"username": "u", "password": "hush"})

    options = elastic_options(settings)

    assert all("secret" in name for name, value in options.items() if "hush" in value)
    assert elastic_of(options) == settings
    assert elastic_of({**options, "prefix": "other"}).prefix == "other"


def test_an_option_that_is_missing_or_no_number_is_named() -> None:
    with pytest.raises(JobError, match="lacks the option 'cluster'"):
        cluster_of({})
    given = {"cluster": "c", "settings.secret": '{"bootstrap": ["x:1"]}'}
    with pytest.raises(JobError, match="lacks the option 'from_ms'"):
        LogEndsReader(given)
    with pytest.raises(JobError, match="option 'from_ms' = 'noon' is no whole number"):
        LogEndsReader({**given, "from_ms": "noon", "to_ms": "5"})


@pytest.mark.slow
def test_a_write_is_tried_again_only_where_that_may_help() -> None:
    attempts = []

    def write(*, retryable: bool) -> None:
        attempts.append(retryable)
        if len(attempts) == 1:
            raise HistoryError(store="x", kind="io", message="no", retryable=retryable)

    assert persist(lambda: write(retryable=True)) == 1
    attempts.clear()
    with pytest.raises(HistoryError):
        persist(lambda: write(retryable=False))
    assert len(attempts) == 1


def test_the_time_of_a_newest_record_that_is_deleted_counts_for_nothing() -> None:
    newest = OffsetsAt(
        offset=np.array([5, 5, -1]), timestamp=np.array([100, 100, 100]), gone=np.zeros(3, np.bool_)
    )

    assert newest_of(newest, np.array([5, 6, 0])).tolist() == [100, -1, -1]
