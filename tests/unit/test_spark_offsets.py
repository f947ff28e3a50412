"""Positions in the offset log of Structured Streaming, in both of its versions."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.wire.spark_offsets import positions
from lagwatch.errors import ProgressError

_METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1732300000000,"conf":{}}'


def log(*sources: object, version: str = "v1", metadata: str = _METADATA) -> str:
    """A file of the offset log; a source that is text is written as it is."""
    texts = [each if isinstance(each, str) else json.dumps(each) for each in sources]
    if version == "v2":
        texts = [f"{number}:{text}" for number, text in enumerate(texts)]
    return "\n".join([version, metadata, *texts])


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_positions_of_a_source_are_the_next_offsets_to_be_read(version: str) -> None:
    text = log({"orders": {"0": 17, "1": 4}, "mail": {"0": 0}}, version=version)

    assert positions(text) == {"orders": {0: 17, 1: 4}, "mail": {0: 0}}


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_sources_without_offset_and_of_another_kind_are_passed_over(version: str) -> None:
    text = log("-", 51, {"logOffset": 3}, {"orders": {"0": 17}}, version=version)

    assert positions(text) == {"orders": {0: 17}}


def test_a_partition_of_two_sources_is_where_the_slower_one_is() -> None:
    text = log({"orders": {"0": 17, "1": 2}}, {"orders": {"0": 12, "1": 9}})

    assert positions(text) == {"orders": {0: 12, 1: 2}}


def test_metadata_may_be_empty() -> None:
    assert positions(log({"orders": {"0": 1}}, metadata="")) == {"orders": {0: 1}}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "cut short"),
        ("v1", "cut short"),
        (f"v1\n{_METADATA}", "cut short"),
        (log('{"orders":{"0":1'), "cut short"),
        (log({"orders": {"0": 1}}, version="v3"), "version is 'v3'"),
        (log(51), "no source of the query reads Kafka"),
        (log({"orders": {"zero": 1}}), "no source of the query reads Kafka"),
        (log({"orders": {"0": "1"}}), "no source of the query reads Kafka"),
        (log({"orders": {"0": True}}), "no source of the query reads Kafka"),
        (log("-"), "no source of the query has begun"),
    ],
)
def test_what_holds_no_positions_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ProgressError, match=reason):
        positions(text)


_TOPICS = st.dictionaries(
    st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cs"])),
    st.dictionaries(st.integers(0, 9999), st.integers(0, 2**63 - 1), min_size=1),
    min_size=1,
)


@given(_TOPICS, st.sampled_from(["v1", "v2"]))
def test_what_spark_writes_is_read_back(known: dict[str, dict[int, int]], version: str) -> None:
    assert positions(log(known, version=version)) == known


@given(_TOPICS, st.sampled_from(["v1", "v2"]), st.data())
def test_a_text_that_is_cut_off_is_never_read_as_other_positions(
    known: dict[str, dict[int, int]], version: str, data: st.DataObject
) -> None:
    text = log(known, version=version)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]

    with pytest.raises(ProgressError):
        positions(cut)
