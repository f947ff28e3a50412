"""The words of the core: where Kafka keeps a group's commits."""

import pytest

from lagwatch.core.model import offsets_partition


@pytest.mark.parametrize(
    ("group", "partitions", "partition"),
    [
        ("", 50, 0),
        ("a", 50, 47),
        ("my-group", 50, 12),
        ("polygenelubricants", 50, 0),  # hashes to the lowest int, which has no absolute value
        ("\u0433\u0440\u0443\u043f\u043f\u0430", 50, 8),
        ("\U0001f600", 50, 49),
    ],
)
def test_a_groups_commits_are_in_the_partition_of_its_java_hash(
    group: str, partitions: int, partition: int
) -> None:
    assert offsets_partition(group, partitions) == partition
