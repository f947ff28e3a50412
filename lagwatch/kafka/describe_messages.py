"""Requests that describe share and streams groups, as classes of kafka-python.

Imports kafka-python, which is optional: import this module only where that is installed.
"""

from typing import Any

from kafka.protocol.api_message import ApiMessage

_SCHEMAS = "lagwatch.kafka.messages"


def _message(name: str) -> Any:  # noqa: ANN401 kafka-python has no types
    """The class of a message; one of a response is found by its key when an answer comes."""
    return type(ApiMessage)(name, (ApiMessage,), {}, load_json=_SCHEMAS)


ShareGroupDescribeRequest = _message("ShareGroupDescribeRequest")
ShareGroupDescribeResponse = _message("ShareGroupDescribeResponse")
StreamsGroupDescribeRequest = _message("StreamsGroupDescribeRequest")
StreamsGroupDescribeResponse = _message("StreamsGroupDescribeResponse")
