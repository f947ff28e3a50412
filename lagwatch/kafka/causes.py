"""Explains why a cluster does not answer, with the remedy.

The client library names the cause of a failed connection only in events; the failed call itself
says no more than "transport failure".
"""

import re
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from lagwatch.config import ClusterSettings
from lagwatch.config.cluster import AWS_MSK_IAM
from lagwatch.errors import SourceError
from lagwatch.kafka import codes

Remedy = Callable[["_Place"], str]


class _Place:
    """Where the fault is, for the texts."""

    def __init__(self, cluster: str, settings: ClusterSettings) -> None:
        self.key = f"clusters.{cluster}"
        self.brokers = ",".join(settings.bootstrap)
        self.user = settings.sasl.username if settings.sasl else None
        self.mechanism = settings.sasl.mechanism if settings.sasl else ""
        self.client_cert = settings.tls.cert_file
        self.has_answered = False


def _wrong_password(place: _Place) -> str:
    if place.mechanism == AWS_MSK_IAM:
        return (
            "the broker refused AWS's identity; allow it kafka-cluster:Connect in its IAM policy, "
            f"and check {place.key}.sasl.region"
        )
    if place.mechanism == "OAUTHBEARER":
        return f"the broker refused our token; check sasl.oauthbearer.* under {place.key}.client"
    return (
        f"the broker refused user {place.user!r} with {place.mechanism}; "
        f"check {place.key}.sasl: username, password and mechanism"
    )


def _no_token(place: _Place) -> str:
    if place.mechanism == AWS_MSK_IAM:
        return (
            "give lagwatch AWS credentials: variables of the environment, a profile, or the role "
            f"of the machine or container; check {place.key}.sasl"
        )
    return f"the issuer gave us no valid token; check sasl.oauthbearer.* under {place.key}.client"


def _untrusted_ca(place: _Place) -> str:
    return (
        "the broker's certificate is not signed by a CA we trust, has expired, or is for another "
        f"host name; set {place.key}.tls.ca_file to the CA's PEM file, use the names in the "
        "certificate, and check until when it is valid"
    )


def _not_tls(place: _Place) -> str:
    return (
        f"the port does not speak TLS; use the brokers' TLS port in {place.key}.bootstrap "
        f"or set {place.key}.tls.enabled = false"
    )


def _no_client_certificate(place: _Place) -> str:
    what = (
        "refused our client certificate" if place.client_cert else "asks for a client certificate"
    )
    return f"the broker {what}; set {place.key}.tls.cert_file and {place.key}.tls.key_file"


def _refused(place: _Place) -> str:
    return (
        f"nothing listens at {place.brokers} (connection refused); "
        f"is the broker up, and is the port in {place.key}.bootstrap right?"
    )


def _unresolved(place: _Place) -> str:
    return f"the host name of a broker cannot be resolved; check {place.key}.bootstrap and DNS"


def _hung_up(place: _Place) -> str:
    if place.has_answered:
        return "the broker hangs up as soon as we speak, or a proxy before it; it did answer before"
    return (
        "the broker hangs up as soon as we speak; it may expect TLS or SASL: "
        f"set {place.key}.tls.enabled = true or {place.key}.sasl"
    )


def _unreachable(place: _Place) -> str:
    return (
        f"no answer from {place.brokers}; a firewall, a wrong address in "
        f"{place.key}.bootstrap, or brokers that are down"
    )


def _no_mechanism(place: _Place) -> str:
    return (
        f"the broker does not offer {place.mechanism} at this port; "
        f"check {place.key}.sasl.mechanism and the port in {place.key}.bootstrap"
    )


def _no_right(place: _Place) -> str:
    who = f"user {place.user!r}" if place.user else "our principal"
    return f"{who} lacks an ACL for this"


def _coordinator_busy(_place: _Place) -> str:
    return "the group's coordinator is moving or loading; it will be asked again"


def _leader_moved(_place: _Place) -> str:
    return "a partition's leader moved; the topics are listed anew"


def _handshake_failed(place: _Place) -> str:
    return f"the TLS handshake failed; check {place.key}.tls"


_BY_TEXT: Final[tuple[tuple[str, str, Remedy], ...]] = (
    ("supported mechanisms", "authentication", _no_mechanism),
    ("failed to acquire sasl oauthbearer token", "authentication", _no_token),
    ("unknown ca", "tls", _no_client_certificate),
    ("certificate verify failed", "tls", _untrusted_ca),
    ("verify that ssl.ca.location", "tls", _untrusted_ca),
    ("certificate could not be verified", "tls", _untrusted_ca),
    ("bad certificate", "tls", _no_client_certificate),
    ("certificate unknown", "tls", _no_client_certificate),
    ("certificate required", "tls", _no_client_certificate),
    ("alert handshake failure", "tls", _no_client_certificate),
    ("wrong version number", "tls", _not_tls),
    ("packet length too long", "tls", _not_tls),
    ("connection refused", "connection", _refused),
    ("failed to resolve", "connection", _unresolved),
    ("might require sasl", "connection", _hung_up),
    ("security.protocol", "connection", _hung_up),
    ("plaintext broker listener", "tls", _not_tls),
    ("in state apiversion_query", "connection", _hung_up),
    ("ssl connection closed by peer", "connection", _hung_up),
)
"""(words in the event, kind of error, remedy); the first that is found decides."""

_BY_CODE: Final[tuple[tuple[frozenset[int], str, Remedy], ...]] = (
    (codes.AUTHENTICATION, "authentication", _wrong_password),
    (codes.AUTHORIZATION, "authorization", _no_right),
    (codes.COORDINATOR, "coordinator", _coordinator_busy),
    (codes.STALE_LEADER, "leader", _leader_moved),
    (codes.TIMEOUT, "timeout", _unreachable),
    (frozenset({codes.RESOLVE}), "connection", _unresolved),
    (frozenset({codes.TLS}), "tls", _handshake_failed),
    (codes.CONNECTION, "connection", _unreachable),
)

_RANK: Final = ("authentication", "tls", "authorization", "connection", "timeout")
"""Kinds of events by how much they say about the cause, best first."""


_VAGUE: Final = ("the broker hangs up", "no answer from")
"""Faults that a broker that went down can show as well, the most specific first."""
_NONE_DOWN: Final = re.compile(r"0/\d+ brokers are down")


class Causes:
    """Translates the client library's errors of one cluster."""

    def __init__(self, cluster: str, settings: ClusterSettings) -> None:
        self._cluster = cluster
        self._place = _Place(cluster, settings)

    def answered(self) -> None:
        """The cluster answered: so it speaks as the configuration says."""
        self._place.has_answered = True

    def error(self, error: KafkaError, *, doing: str = "") -> SourceError:
        """The `SourceError` for an event or a refused call; `doing` says what was tried."""
        kind, message = self._explain(error)
        return SourceError(
            cluster=self._cluster, kind=kind, message=f"{doing}: {message}" if doing else message
        )

    def best(
        self, errors: list[KafkaError], failure: KafkaError, *, doing: str = ""
    ) -> SourceError:
        """The most specific of the events that came with a failed call."""
        candidates = [self.error(error, doing=doing) for error in (*errors, failure)]
        return min(candidates, key=_rank)

    def misconfigured(self, error: KafkaException) -> SourceError:
        """The error for a configuration that the client library refuses."""
        text = _text(error.args[0])
        kind = "tls" if "ssl" in text.lower() else "protocol"
        return SourceError(
            cluster=self._cluster,
            kind=kind,
            message=f"the Kafka client refuses its configuration: {text}; "
            f"check {self._place.key}.tls, .sasl and .client",
        )

    def no_token(self, problem: str) -> SourceError:
        """The error for a log-in for which no token could be had."""
        message = f"{problem}; {_no_token(self._place)}"
        return SourceError(cluster=self._cluster, kind="authentication", message=message)

    def _explain(self, error: KafkaError) -> tuple[str, str]:
        text = _text(error)
        for words, kind, remedy in _BY_TEXT:
            if words in text.lower():
                return kind, f"{remedy(self._place)} ({text})"
        for errors, kind, remedy in _BY_CODE:
            if error.code() in errors:
                return kind, f"{remedy(self._place)} ({text})"
        return "protocol", text


def _rank(error: SourceError) -> tuple[int, int]:
    """Sort key, the most specific first: by kind, then by how surely the text names the cause."""
    by_kind = _RANK.index(error.kind) if error.kind in _RANK else len(_RANK)
    vague = [words in str(error) for words in _VAGUE]
    return by_kind, vague.index(True) + 1 if any(vague) else 0


def _text(error: KafkaError) -> str:
    text = error.str() or error.name()
    # the client library counts wrongly while it learns of brokers
    return error.name() if _NONE_DOWN.fullmatch(text) else text
