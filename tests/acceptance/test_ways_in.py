"""Every way to connect and log in, right and wrong, to one real broker that offers them all."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lagwatch.config import ClusterSettings
from lagwatch.kafka.embedded import EmbeddedKafka, ScramOverTls
from lagwatch.ports.reports import SourceHealth, SourceKind
from tests.support.certificates import client_certificate
from tests.support.collecting import QUICK, collecting
from tests.support.issuer import HOUR_S, Issuer, issuing
from tests.support.kafka import commit, create_topic, unique
from tests.support.waiting import eventually

SECRET = "right-secret"  # noqa: S105 of a test
WRONG = "wrong-secret"
LISTENERS = {
    "CLEAR": "PLAINTEXT",
    "TLS": "SSL",
    "MTLS": "SSL",
    "PASSWORDS": "SASL_SSL",
    "CLEAR_PASSWORDS": "SASL_PLAINTEXT",
    "TOKENS": "SASL_SSL",
}
_MODULE = "org.apache.kafka.common.security"
MODES = ("offsets-topic", "admin")


@dataclass(frozen=True)
class Offered:
    """The broker, and what clients of it need."""

    kafka: EmbeddedKafka
    topic: str
    group: str
    client_ca: Path
    cert: Path
    key: Path
    foreign_cert: Path
    foreign_key: Path
    issuer: Issuer

    def settings(self, listener: str, **options: Any) -> ClusterSettings:  # noqa: ANN401 - as in a file
        """How to reach a listener, as in the configuration file."""
        bootstrap = (
            self.kafka.bootstrap_servers
            if listener == "SCRAM"
            else self.kafka.bootstrap_of(listener)
        )
        return ClusterSettings.model_validate({"bootstrap": bootstrap, **QUICK, **options})


@pytest.fixture(scope="module")
def offered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offered]:
    folder = tmp_path_factory.mktemp("certificates")
    client_ca, cert, key = client_certificate(folder / "ours", "lagwatch")
    _, foreign_cert, foreign_key = client_certificate(folder / "foreign", "lagwatch")
    users = {"admin": "admin-secret", "watcher": SECRET}
    kafka = EmbeddedKafka(
        security=ScramOverTls(users=users, super_users=("admin", "watcher")),
        listeners=LISTENERS,
        properties={
            "super.users": "User:ANONYMOUS;User:admin;User:watcher;User:CN=lagwatch",
            "listener.name.mtls.ssl.client.auth": "required",
            "listener.name.mtls.ssl.truststore.type": "PEM",
            "listener.name.mtls.ssl.truststore.location": str(client_ca),
            **_mechanism("passwords", "PLAIN", f'{_PLAIN} user_watcher="{SECRET}";'),
            **_mechanism("clear_passwords", "PLAIN", f'{_PLAIN} user_watcher="{SECRET}";'),
            **_mechanism("tokens", "OAUTHBEARER", f"{_TOKENS} required;"),
        },
    )
    with kafka, issuing("watcher", SECRET) as issuer:
        topic, group = create_topic(kafka, "orders"), unique("billing")
        commit(kafka, group, topic, 7)
        yield Offered(
            kafka=kafka,
            topic=topic,
            group=group,
            client_ca=client_ca,
            cert=cert,
            key=key,
            foreign_cert=foreign_cert,
            foreign_key=foreign_key,
            issuer=issuer,
        )


_PLAIN = f"{_MODULE}.plain.PlainLoginModule required"
_TOKENS = f"{_MODULE}.oauthbearer.OAuthBearerLoginModule"


def _mechanism(listener: str, mechanism: str, jaas: str) -> Mapping[str, str]:
    """Broker properties: a listener that takes this mechanism and no other."""
    prefix = f"listener.name.{listener}"
    return {
        f"{prefix}.sasl.enabled.mechanisms": mechanism,
        f"{prefix}.{mechanism.lower()}.sasl.jaas.config": jaas,
    }


def _options(offered: Offered, way: str) -> tuple[str, dict[str, Any]]:
    """Listener and options of a way in that is right."""
    trust = {"enabled": True, "ca_file": str(offered.kafka.ca_file)}
    watcher = {"username": "watcher", "password": SECRET}
    ways: dict[str, tuple[str, dict[str, Any]]] = {
        "PLAINTEXT": ("CLEAR", {}),
        "TLS": ("TLS", {"tls": trust}),
        "mTLS": (
            "MTLS",
            {"tls": {**trust, "cert_file": str(offered.cert), "key_file": str(offered.key)}},
        ),
        "PLAIN": ("PASSWORDS", {"tls": trust, "sasl": {"mechanism": "PLAIN", **watcher}}),
        "PLAIN without TLS": ("CLEAR_PASSWORDS", {"sasl": {"mechanism": "PLAIN", **watcher}}),
        "OAUTHBEARER, issuer": (
            "TOKENS",
            {
                "tls": trust,
                "sasl": {"mechanism": "OAUTHBEARER"},
                "client": _asks(offered.issuer.url, SECRET),
            },
        ),
        "OAUTHBEARER, unsecured": (
            "TOKENS",
            {
                "tls": trust,
                "sasl": {"mechanism": "OAUTHBEARER"},
                "client": {
                    "enable.sasl.oauthbearer.unsecure.jwt": True,
                    "sasl.oauthbearer.config": "principal=watcher",
                },
            },
        ),
        **{
            mechanism: ("SCRAM", {"tls": trust, "sasl": {"mechanism": mechanism, **watcher}})
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        },
    }
    return ways[way]


def _asks(url: str, secret: str) -> dict[str, Any]:
    return {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.id": "lagwatch",
        "sasl.oauthbearer.client.secret": secret,
    }


WAYS = (
    "PLAINTEXT",
    "TLS",
    "mTLS",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "PLAIN",
    "PLAIN without TLS",
    "OAUTHBEARER, issuer",
    "OAUTHBEARER, unsecured",
)


@pytest.mark.parametrize("commits", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_commits_are_read_by_every_way_in(offered: Offered, way: str, commits: str) -> None:
    listener, options = _options(offered, way)

    with collecting(offered.settings(listener, commits=commits, **options)) as seen:
        eventually(lambda: seen.offsets(offered.group, offered.topic) == [7], "the commit")
        eventually(lambda: seen.log_end(offered.topic) == (0, 0, 0), "the log end")


@pytest.mark.parametrize(
    ("way", "wrong", "kind", "words"),
    [
        ("TLS", {"tls": {"enabled": True}}, "tls", "not signed by a CA we trust"),
        ("mTLS", {"cert": None}, "tls", "asks for a client certificate"),
        ("mTLS", {"cert": "foreign"}, "tls", "refused our client certificate"),
        ("SCRAM-SHA-256", {"password": WRONG}, "authentication", "with SCRAM-SHA-256"),
        ("SCRAM-SHA-512", {"password": WRONG}, "authentication", "with SCRAM-SHA-512"),
        ("SCRAM-SHA-512", {"mechanism": "PLAIN"}, "authentication", "does not offer PLAIN"),
        ("PLAIN", {"password": WRONG}, "authentication", "refused user 'watcher' with PLAIN"),
        ("PLAIN", {"mechanism": "SCRAM-SHA-256"}, "authentication", "does not offer SCRAM"),
        ("OAUTHBEARER, issuer", {"secret": WRONG}, "authentication", "no valid token"),
        ("OAUTHBEARER, issuer", {"expired": True}, "authentication", "no valid token"),
        ("OAUTHBEARER, issuer", {"signed": True}, "authentication", "refused our token"),
    ],
)
def test_every_wrong_way_is_named_without_its_secret(
    offered: Offered, way: str, wrong: Mapping[str, Any], kind: str, words: str
) -> None:
    listener, options = _options(offered, way)
    _spoil(options, wrong, offered)

    with collecting(offered.settings(listener, **options)) as seen:
        eventually(lambda: bool(_troubles(seen.of(SourceHealth), kind)), f"a fault of {kind}")
        found = _troubles(seen.of(SourceHealth), kind)
        commits = seen.offsets(offered.group, offered.topic)

    offered.issuer.expires_in_s, offered.issuer.algorithm = HOUR_S, "none"
    assert any(words in each.message for each in found), [each.message for each in found]
    assert not [each.message for each in found if WRONG in each.message or SECRET in each.message]
    assert commits == []


@pytest.mark.parametrize(
    ("credentials", "words"),
    [
        ({}, "AWS finds no credentials for this process; give lagwatch AWS credentials"),
        (
            {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": SECRET},
            "the broker refused AWS's identity; allow it kafka-cluster:Connect",
        ),
    ],
)
def test_a_broker_that_does_not_know_us_by_aws_is_named(
    offered: Offered,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    credentials: Mapping[str, str],
    words: str,
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    for name, value in credentials.items():
        monkeypatch.setenv(name, value)
    options = {
        "tls": {"enabled": True, "ca_file": str(offered.kafka.ca_file)},
        "sasl": {"mechanism": "AWS_MSK_IAM", "region": "eu-west-1"},
    }

    with collecting(offered.settings("TOKENS", **options)) as seen:
        eventually(
            lambda: bool(_troubles(seen.of(SourceHealth), "authentication")), "a fault of log-in"
        )
        found = _troubles(seen.of(SourceHealth), "authentication")

    assert any(words in each.message for each in found), [each.message for each in found]
    assert SECRET not in str(found)


def _spoil(options: dict[str, Any], wrong: Mapping[str, Any], offered: Offered) -> None:
    match wrong:
        case {"tls": tls}:
            options["tls"] = tls
        case {"cert": None}:
            options["tls"] = {"enabled": True, "ca_file": options["tls"]["ca_file"]}
        case {"cert": _}:
            files = {"cert_file": offered.foreign_cert, "key_file": offered.foreign_key}
            options["tls"] |= {name: str(file) for name, file in files.items()}
        case {"secret": secret}:
            options["client"] = _asks(offered.issuer.url, secret)
        case {"expired": _}:
            offered.issuer.expires_in_s = -60
        case {"signed": _}:
            offered.issuer.algorithm = "RS256"
        case _:
            options["sasl"] = {**options["sasl"], **wrong}


def _troubles(healths: list[SourceHealth], kind: str) -> list[SourceHealth]:
    wanted = {SourceKind.CONNECTION, SourceKind.TOPICS}
    return [
        each
        for each in healths
        if not each.ok and each.source in wanted and each.error_kind == kind
    ]
