"""Kafka's messages that kafka-python lacks: one file each, with the fields that Kafka 4.2 has.

Source: Kafka 4.2, clients/src/main/resources/common/message.
"""
