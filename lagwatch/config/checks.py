"""Finds options that contradict each other, mostly in the tables as read, before defaults."""

from collections.abc import Iterator, Mapping
from typing import Final, cast

from lagwatch.config.cluster import AWS_MSK_IAM, WITH_PASSWORD, ClusterSettings
from lagwatch.config.settings import Settings
from lagwatch.config.walk import Tree
from lagwatch.errors import Fault

_OWNED: Final[Mapping[str, str]] = {
    "bootstrap.servers": "bootstrap",
    "metadata.broker.list": "bootstrap",
    "client.id": "client_id",
    "security.protocol": "tls.enabled and sasl.mechanism",
    "enable.ssl.certificate.verification": "tls.verify",
    "ssl.endpoint.identification.algorithm": "tls.verify",
    "ssl.ca.location": "tls.ca_file",
    "ssl.certificate.location": "tls.cert_file",
    "ssl.key.location": "tls.key_file",
    "ssl.key.password": "tls.key_password_file",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.username": "sasl.username",
    "sasl.password": "sasl.password_file",
}
"""Properties of librdkafka that have an option of their own."""

_FALSE: Final = frozenset({"false", "0", "no", "off", "n", "f"})
"""What pydantic takes for false, in lower case."""

_OURS: Final = frozenset(
    {
        "auto.offset.reset",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "group.id",
        "isolation.level",
    }
)
"""Properties that decide how lagwatch reads."""

_UNUSED: Final[Mapping[str, tuple[str, ...]]] = {
    "admin": ("start", "offsets_topic"),
    "offsets-topic": ("committed_interval_s",),
}
"""By mode: options that mean nothing in it. Writing down their default does no harm."""


def cluster_faults(name: str, cluster: Tree) -> Iterator[Fault]:
    """Finds options of one cluster that contradict each other."""
    prefix = f"clusters.{name}"
    yield from _commits(prefix, cluster)
    yield from _filters(prefix, cluster)
    yield from _tls(f"{prefix}.tls", _table(cluster, "tls"))
    yield from _sasl(f"{prefix}.sasl", _table(cluster, "sasl"))
    yield from _aws(prefix, cluster)
    yield from _client(prefix, _table(cluster, "client"))


def _table(cluster: Tree, name: str) -> Tree:
    table = cluster.get(name)
    return table if isinstance(table, dict) else {}


def _commits(prefix: str, cluster: Tree) -> Iterator[Fault]:
    mode = str(cluster.get("commits"))
    for option in _UNUSED.get(mode, ()):
        default = ClusterSettings.model_fields[option].default
        if cluster.get(option, default) != default:
            yield Fault(
                key=f"{prefix}.{option}",
                value=str(cluster[option]),
                problem=f'has no effect with commits = "{mode}"',
                remedy=f'Remove it, or set {prefix}.commits = "auto".',
            )


def _filters(prefix: str, cluster: Tree) -> Iterator[Fault]:
    for kind in ("group", "topic"):
        allow, deny = cluster.get(f"{kind}_allow"), cluster.get(f"{kind}_deny")
        if allow and allow == deny:
            yield Fault(
                key=f"{prefix}.{kind}_deny",
                value=str(deny),
                problem=f"denies every {kind} that {kind}_allow allows",
                remedy="Remove one of the two.",
            )


def _tls(prefix: str, tls: Tree) -> Iterator[Fault]:
    used = sorted(option for option in tls if option not in {"enabled", "verify"})
    if used and str(tls.get("enabled", False)).lower() in _FALSE:
        yield Fault(
            key=f"{prefix}.enabled",
            value="false",
            problem=f"TLS is off, but {', '.join(used)} is set",
            remedy=f"Set {prefix}.enabled = true, or remove the others.",
        )
    yield from _needs(prefix, tls, "cert_file", "key_file")
    yield from _needs(prefix, tls, "key_file", "cert_file")
    for secret in ("key_password", "key_password_file"):
        yield from _needs(prefix, tls, secret, "key_file")


def _sasl(prefix: str, sasl: Tree) -> Iterator[Fault]:
    mechanism = str(sasl.get("mechanism", "")).strip().upper()
    if mechanism in WITH_PASSWORD:
        for option, file in (("username", ""), ("password", "password_file")):
            if not (sasl.get(option) or sasl.get(file)):
                yield Fault(
                    key=f"{prefix}.{option}",
                    value="",
                    problem=f"is missing; {mechanism} needs it",
                    remedy=f"Set {prefix}.{file or option}.",
                )
    if mechanism in _WITH_TOKEN:
        for option in ("username", "password", "password_file"):
            if option in sasl:
                yield Fault(
                    key=f"{prefix}.{option}",
                    value="",
                    problem=f"has no effect with {mechanism}",
                    remedy=f"Remove it; {_WITH_TOKEN[mechanism]}.",
                )


_WITH_TOKEN: Final[Mapping[str, str]] = {
    "OAUTHBEARER": "set sasl.oauthbearer.* under client",
    AWS_MSK_IAM: "AWS's credentials are found as its own tools find them",
}


def _aws(prefix: str, cluster: Tree) -> Iterator[Fault]:
    sasl, tls = _table(cluster, "sasl"), _table(cluster, "tls")
    options = [option for option in ("region", "role", "profile") if sasl.get(option)]
    if str(sasl.get("mechanism", "")).strip().upper() != AWS_MSK_IAM:
        for option in options:
            yield Fault(
                key=f"{prefix}.sasl.{option}",
                value=str(sasl[option]),
                problem=f"has no effect without mechanism {AWS_MSK_IAM}",
                remedy=f'Remove it, or set {prefix}.sasl.mechanism = "{AWS_MSK_IAM}".',
            )
        return
    if "region" not in options:
        yield Fault(
            key=f"{prefix}.sasl.region",
            value="",
            problem=f"is missing; {AWS_MSK_IAM} needs it",
            remedy='Write the AWS region of the cluster, for example "eu-west-1".',
        )
    if "role" in options and "profile" in options:
        yield Fault(
            key=f"{prefix}.sasl.profile",
            value=str(sasl["profile"]),
            problem="is given beside role",
            remedy="Keep one of them.",
        )
    if not tls.get("enabled"):
        yield Fault(
            key=f"{prefix}.tls.enabled",
            value="false",
            problem=f"Amazon MSK takes {AWS_MSK_IAM} over TLS only",
            remedy=f"Set {prefix}.tls.enabled = true.",
        )


def _client(prefix: str, client: Tree) -> Iterator[Fault]:
    for name in client:
        if name in _OWNED:
            remedy = f"Remove it, and use {prefix}.{_OWNED[name]}."
        elif name in _OURS:
            remedy = "Remove it: lagwatch sets it itself."
        else:
            continue
        yield Fault(
            key=f'{prefix}.client."{name}"',
            value="",
            problem="cannot be handed to the client",
            remedy=remedy,
        )


def _needs(prefix: str, table: Tree, option: str, other: str) -> Iterator[Fault]:
    if option in table and other not in table:
        yield Fault(
            key=f"{prefix}.{other}",
            value="",
            problem=f"is missing; {option} needs it",
            remedy=f"Set {prefix}.{other}, or remove {option}.",
        )


_ELASTICSEARCH: Final = "history.elasticsearch"


def elasticsearch_faults(tree: Tree) -> Iterator[Fault]:
    """Options that contradict each other, as they were written."""
    table = _section(_section(tree, "history"), "elasticsearch")
    yield from _credentials(table)
    yield from _trust(table)


def _credentials(table: Tree) -> Iterator[Fault]:
    key, name, password = (
        option in table or f"{option}_file" in table
        for option in ("api_key", "username", "password")
    )
    if key and (name or password):
        yield _store_fault("api_key", "is given beside a user", "Keep one way to authenticate.")
    elif password and not name:
        yield _store_fault("username", "is missing, there is a password", "Write the user's name.")
    elif name and not password:
        yield _store_fault("password_file", "is missing, there is a username", "Name the file.")


def _trust(table: Tree) -> Iterator[Fault]:
    file, fingerprint = table.get("ca_file"), table.get("fingerprint")
    if file is not None and fingerprint is not None:
        yield _store_fault("fingerprint", "is given beside ca_file", "Keep one of them.")
    urls = table.get("urls")
    shown = " ".join(map(str, urls)) if isinstance(urls, list | tuple) else str(urls or "")
    if (file is not None or fingerprint is not None) and "https://" not in shown:
        yield _store_fault(
            "urls",
            "no URL is encrypted, so there is no certificate to check",
            "Write https://, or take ca_file and fingerprint away.",
        )


def _store_fault(option: str, problem: str, remedy: str) -> Fault:
    return Fault(key=f"{_ELASTICSEARCH}.{option}", value="", problem=problem, remedy=remedy)


_ROUNDS_OF_A_SAMPLE: Final = 2
"""With fewer evaluations in the interval of the samples, a slow one leaves an interval empty."""


def interval_faults(settings: Settings) -> Iterator[Fault]:
    """Samples are taken from evaluations, so there must be at least one in every interval."""
    sampled_s, judged_s = settings.history.interval_s, settings.evaluator.interval_s
    if settings.history.store != "none" and sampled_s < _ROUNDS_OF_A_SAMPLE * judged_s:
        yield Fault(
            key="history.interval_s",
            value=f"{sampled_s:g}",
            problem=f"is less than twice evaluator.interval_s ({judged_s:g}): intervals would have "
            "no sample, and roll-ups would miss their time",
            remedy=f"Write {_ROUNDS_OF_A_SAMPLE * judged_s:g} or more, or set evaluator.interval_s "
            f"to {sampled_s / _ROUNDS_OF_A_SAMPLE:g} or less.",
        )


_WEB: Final = frozenset({"http", "https"})


def place_faults(settings: Settings) -> Iterator[Fault]:
    """Addresses of the Parquet store that name no folder."""
    place = settings.history.url
    scheme, mark, rest = place.get_secret_value().partition("://")
    if settings.history.store != "parquet" or not mark:
        return
    if scheme in _WEB:
        yield Fault(
            key="history.url",
            value=str(place),
            problem="is the address of a web server, and the store is `parquet`, files in a folder",
            remedy='For Elasticsearch write history.store = "elasticsearch" and its address into '
            "history.elasticsearch.urls.",
        )
    elif scheme != "file" and not rest.strip("/"):
        yield Fault(
            key="history.url",
            value=str(place),
            problem="names no bucket and no folder",
            remedy=f"Write {scheme}://BUCKET/FOLDER.",
        )
    elif not _is_known(scheme):
        yield Fault(
            key="history.url",
            value=str(place),
            problem=f"neither pyarrow nor fsspec knows {scheme}://",
            remedy="Write a folder, or a URL as s3://BUCKET/FOLDER.",
        )


_OF_PYARROW: Final = frozenset({"file", "s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss"})


def _is_known(scheme: str) -> bool:
    """False if no package that is installed has heard of such URLs; connects to nothing."""
    if scheme in _OF_PYARROW:
        return True
    try:
        from fsspec import available_protocols  # noqa: PLC0415 optional
    except ImportError:
        return False
    # fsspec chains file systems: `simplecache::s3`
    return {*scheme.split("::")} <= {*available_protocols(), *_OF_PYARROW}


def _section(table: Tree, name: str) -> Tree:
    value = table.get(name)
    return cast("Tree", value) if isinstance(value, dict) else {}
