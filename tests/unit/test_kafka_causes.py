"""Every fault of a connection has its own words, and they say what to do."""

import pytest
from confluent_kafka import KafkaError

from lagwatch.config import ClusterSettings
from lagwatch.kafka import codes, properties
from lagwatch.kafka.causes import Causes
from lagwatch.kafka.client import REQUEST_TIMEOUT_S, AdaptiveTimeout

SETTINGS = ClusterSettings.model_validate(
    {
        "bootstrap": ["a:1", "b:2"],
        "tls": {"enabled": True, "ca_file": "/ca.pem", "verify": False},
        "sasl": {"mechanism": "SCRAM-SHA-256", "username": "u", "password": "secret"},
        "client": {"client.id": "mine"},
    }
)
CAUSES = Causes("prod", SETTINGS)


@pytest.mark.parametrize(
    ("code", "text", "kind", "words"),
    [
        (codes.TRANSPORT, "Connect to ipv4#1 failed: Connection refused", "connection", "nothing"),
        (codes.RESOLVE, "Failed to resolve 'x:1'", "connection", "cannot be resolved"),
        (codes.TLS, "certificate verify failed", "tls", "clusters.prod.tls.ca_file"),
        (codes.TRANSPORT, "ssl alert bad certificate", "tls", "clusters.prod.tls.cert_file"),
        (codes.TRANSPORT, "tls alert certificate unknown", "tls", "clusters.prod.tls.cert_file"),
        (codes.TRANSPORT, "connecting to a PLAINTEXT broker listener?", "tls", "not speak TLS"),
        (codes.TIMED_OUT, "Local: Timed out", "timeout", "no answer from a:1,b:2"),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, "loading", "coordinator", "asked again"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "no", "authorization", "user 'u' lacks an ACL"),
        (KafkaError.NOT_LEADER_FOR_PARTITION, "moved", "leader", "leader moved"),
        (KafkaError.SASL_AUTHENTICATION_FAILED, "bad", "authentication", "refused user 'u'"),
    ],
)
def test_a_fault_has_its_kind_and_its_remedy(code: int, text: str, kind: str, words: str) -> None:
    error = CAUSES.error(KafkaError(code, text))

    assert error.kind == kind
    assert words in str(error)
    assert text in str(error)


def test_a_broker_that_answered_before_is_not_said_to_expect_something_else() -> None:
    causes, event = Causes("prod", SETTINGS), "Disconnected: might require SASL authentication"
    before = str(causes.error(KafkaError(codes.TRANSPORT, event)))
    causes.answered()
    after = str(causes.error(KafkaError(codes.TRANSPORT, event)))

    assert "it may expect TLS or SASL" in before
    assert "it may expect" not in after
    assert "a proxy before it" in after


def test_brokers_that_are_down_are_not_said_to_be_none() -> None:
    error = CAUSES.error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "0/4 brokers are down"))  # noqa: SLF001

    assert "0/4" not in str(error)
    assert "no answer from a:1,b:2" in str(error)


def test_the_cause_is_preferred_to_its_consequences() -> None:
    refused = KafkaError(codes.TRANSPORT, "Connection refused")
    hung_up = KafkaError(codes.TRANSPORT, "SSL connection closed by peer")
    failure = KafkaError(codes.TRANSPORT, "Failed to get metadata")

    best = CAUSES.best([hung_up, refused], failure, doing="listing topics")

    assert str(best).startswith("listing topics: nothing listens")


def test_a_wrong_password_is_preferred_to_everything() -> None:
    wrong = KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED, "invalid credentials")
    untrusted = KafkaError(codes.TLS, "certificate verify failed")

    assert CAUSES.best([untrusted, wrong], untrusted).kind == "authentication"


def test_the_configuration_becomes_properties_and_the_users_own_win() -> None:
    made = properties.common(SETTINGS)

    assert made["bootstrap.servers"] == "a:1,b:2"
    assert made["security.protocol"] == "SASL_SSL"
    assert made["ssl.ca.location"] == "/ca.pem"
    assert made["enable.ssl.certificate.verification"] is False
    assert made["ssl.endpoint.identification.algorithm"] == "none"
    assert (made["sasl.username"], made["sasl.password"]) == ("u", "secret")
    assert made["client.id"] == "mine"


def test_readers_see_no_commit_of_an_aborted_or_open_transaction() -> None:
    for reader in (properties.reader, properties.bulk_reader):
        assert reader(SETTINGS)["isolation.level"] == "read_committed"


def test_the_reader_commits_nothing() -> None:
    assert properties.reader(SETTINGS)["enable.auto.commit"] is False


def test_after_a_miss_deadlines_are_short_and_now_and_then_full() -> None:
    patience = AdaptiveTimeout()
    deadlines_s = []
    for _ in range(6):
        deadlines_s.append(patience.timeout_s)
        patience.note(answered=False)
    patience.note(answered=True)

    assert deadlines_s == [REQUEST_TIMEOUT_S, 1.0, 1.0, 1.0, REQUEST_TIMEOUT_S, 1.0]
    assert patience.timeout_s == REQUEST_TIMEOUT_S
