"""A streaming data source in Python that reads a broker; its offsets are as those of Spark's own.

The connector is a jar that Spark has to download; this one needs none.
"""

import sys
from collections.abc import Iterator, Mapping

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

Offsets = dict[str, dict[str, int]]


def register(spark: SparkSession) -> str:
    """Make the source known to Spark; returns its format."""
    # Spark's workers get the classes by value, and need no tests to import
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spark.dataSource.register(KafkaSource)
    return KafkaSource.name()


class Reader(DataSourceStreamReader):
    """Batches of at most `most` records of each partition."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.servers = {"bootstrap.servers": options["servers"], "group.id": "none"}
        self.topic, self.most = options["topic"], int(options["most"])
        self.numbers = range(int(options["partitions"]))

    def initialOffset(self) -> Offsets:  # noqa: N802 Spark's name
        return {self.topic: {str(number): 0 for number in self.numbers}}

    def latestOffset(self, start: Offsets, limit: object) -> Offsets:  # noqa: N802 Spark's
        del limit
        return {self.topic: {each: self._end(each, at) for each, at in start[self.topic].items()}}

    def _end(self, partition: str, start: int) -> int:
        # classes of confluent_kafka cannot be pickled
        from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415

        consumer = Consumer(self.servers)
        try:
            place = TopicPartition(self.topic, int(partition))
            _, end = consumer.get_watermark_offsets(place, 10)
        finally:
            consumer.close()
        return min(end, start + self.most)

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        before, after = start[self.topic], end[self.topic]
        return [InputPartition((int(each), before[each], after[each])) for each in after]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int]]:
        from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415

        number, first, end = partition.value
        consumer = Consumer(self.servers)
        consumer.assign([TopicPartition(self.topic, number, first)])
        while first < end:
            for record in consumer.consume(min(500, end - first), 1.0):
                offset = record.offset() or 0
                yield number, offset
                first = offset + 1
        consumer.close()


class KafkaSource(DataSource):
    """Options: `servers`, `topic`, `partitions`, `most`."""

    @classmethod
    def name(cls) -> str:
        return "kafka-in-python"

    def schema(self) -> str:
        return "partition int, offset long"

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802 Spark's
        del schema
        return Reader(self.options)
