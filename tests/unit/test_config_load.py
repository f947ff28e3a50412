"""From file, environment and flags to settings; every fault at once."""

from pathlib import Path

import pytest

from lagwatch.config import ClusterSettings
from lagwatch.config.load import Override, load, load_with_origins
from lagwatch.config.reference import Option, env_name, options
from lagwatch.config.settings import Settings
from lagwatch.errors import ConfigError, Fault

CLUSTER = '[clusters.prod]\nbootstrap = ["kafka-1:9092"]\n'


@pytest.fixture
def written(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "lagwatch.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def faults(path: Path | None, environ: dict[str, str] | None = None) -> dict[str, Fault]:
    with pytest.raises(ConfigError) as raised:
        load(path, environ or {})
    return {fault.key: fault for fault in raised.value.faults}


class TestPrecedence:
    def test_a_file_with_one_broker_is_enough(self, written) -> None:
        settings = load(written(CLUSTER), {})

        assert settings.clusters["prod"].bootstrap == ("kafka-1:9092",)
        assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8000)
        assert settings.windows.min_distance_s == 1.0

    def test_flags_go_before_the_environment_and_that_before_the_file(self, written) -> None:
        path = written(CLUSTER + '[server]\naddress = ":1"\nopen = true\n[log]\nlevel = "debug"\n')
        environ = {"LAGWATCH_SERVER__ADDRESS": ":2", "LAGWATCH_WINDOWS__INTERVALS": "20"}
        flags = [Override(path=("server", "address"), value=":3", origin="--address")]

        loaded = load_with_origins(path, environ, flags)

        assert loaded.settings.server.address == ":3"
        assert loaded.settings.windows.intervals == 20
        assert loaded.settings.log.level == "debug"
        assert loaded.origins["server", "address"] == "--address"
        assert loaded.origins["windows", "intervals"] == "LAGWATCH_WINDOWS__INTERVALS"
        assert loaded.origins["log", "level"] == str(path)

    def test_the_environment_alone_is_enough(self) -> None:
        environ = {"LAGWATCH_CLUSTERS__PROD__BOOTSTRAP": "a:1, b:2,"}

        settings = load(None, environ)

        assert settings.clusters == {"PROD": ClusterSettings(bootstrap=("a:1", "b:2"))}

    def test_a_variable_finds_the_cluster_of_the_file_in_any_case(self, written) -> None:
        environ = {"lagwatch_clusters__PROD__start": "latest"}

        settings = load(written(CLUSTER.replace("prod", "Prod")), environ)

        assert list(settings.clusters) == ["Prod"]
        assert settings.clusters["Prod"].start == "latest"

    def test_variables_of_one_new_cluster_meet_whatever_their_case(self) -> None:
        environ = {
            "LAGWATCH_CLUSTERS__dev__BOOTSTRAP": "a:1",
            "LAGWATCH_CLUSTERS__DEV__START": "latest",
        }

        assert len(load(None, environ).clusters) == 1

    def test_properties_of_the_client_are_text_and_can_be_variables(self, written) -> None:
        path = written(CLUSTER + '[clusters.prod.client]\n"log.queue" = true\n')
        environ = {"LAGWATCH_CLUSTERS__PROD__CLIENT__SOCKET_TIMEOUT_MS": "30000"}

        settings = load(path, environ)

        assert settings.clusters["prod"].client == {
            "log.queue": "true",
            "socket.timeout.ms": "30000",
        }

    def test_variables_that_kubernetes_makes_for_a_service_are_no_options(self) -> None:
        environ = {
            "LAGWATCH_CLUSTERS__A__BOOTSTRAP": "a:1",
            "LAGWATCH_SERVICE_HOST": "10.0.0.1",
            "LAGWATCH_SERVICE_PORT_HTTP": "8000",
            "LAGWATCH_PORT": "tcp://10.0.0.1:8000",
            "LAGWATCH_PORT_8000_TCP_ADDR": "10.0.0.1",
            "LAGWATCH_METRICS_SERVICE_HOST": "10.0.0.2",
        }

        assert load(None, environ).server.port == 8000

    def test_variables_of_ours_that_are_no_options_are_left_alone(self) -> None:
        environ = {"LAGWATCH_CLUSTERS__A__BOOTSTRAP": "a:1", "LAGWATCH_CONFIG": "x.toml"}

        assert list(load(None, environ).clusters) == ["A"]


class TestSecrets:
    SASL = '[clusters.prod.sasl]\nmechanism = "scram-sha-512"\nusername = "u"\n'

    def test_a_password_is_read_from_its_file_without_the_line_feed(
        self, written, tmp_path: Path
    ) -> None:
        secret = tmp_path / "secret"
        secret.write_text(" p w \n")

        settings = load(written(f'{CLUSTER}{self.SASL}password_file = "{secret}"\n'), {})

        sasl = settings.clusters["prod"].sasl
        assert sasl is not None
        assert sasl.mechanism == "SCRAM-SHA-512"
        assert sasl.password is not None
        assert sasl.password.get_secret_value() == " p w "

    def test_a_file_of_a_secret_can_be_named_by_a_variable(self, written, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_text("from-file")
        environ = {"LAGWATCH_CLUSTERS__PROD__SASL__PASSWORD_FILE": str(secret)}

        settings = load(written(CLUSTER + self.SASL + 'password = "old"\n'), environ)

        sasl = settings.clusters["prod"].sasl
        assert sasl is not None
        assert sasl.password is not None
        assert sasl.password.get_secret_value() == "from-file"

    def test_a_password_from_the_environment_replaces_the_file_with_one(self, written) -> None:
        environ = {"LAGWATCH_CLUSTERS__PROD__SASL__PASSWORD": "env"}

        settings = load(written(CLUSTER + self.SASL + 'password_file = "/nowhere"\n'), environ)

        sasl = settings.clusters["prod"].sasl
        assert sasl is not None
        assert sasl.password is not None
        assert sasl.password.get_secret_value() == "env"

    def test_secrets_reach_the_child_and_nothing_else(self, written) -> None:
        cluster = load(written(CLUSTER + self.SASL + 'password = "hunter2"\n'), {}).clusters["prod"]

        assert ClusterSettings.from_child(cluster.to_child()) == cluster
        assert "hunter2" in cluster.to_child()
        for shown in (repr(cluster), str(cluster.model_dump()), cluster.model_dump_json()):
            assert "hunter2" not in shown

    def test_no_fault_shows_a_secret(self, written) -> None:
        path = written(
            CLUSTER
            + "passwrd = 'hunter2'\n"
            + self.SASL
            + "password = ['hunter2']\npassword_file = '/nowhere'\n"
            + "[clusters.prod.client]\n'ssl.key.pem' = ['hunter2']\n'sasl.password' = 'hunter2'\n"
            + "[clusters.prod.tls]\nkey_password = 5\nenabled = 'hunter'\n"
        )

        found = faults(path)

        assert "hunter2" not in "\n".join(map(str, found.values()))
        assert found["clusters.prod.passwrd"].value == ""
        assert found['clusters.prod.client."ssl.key.pem"'].value == "***"
        assert found["clusters.prod.tls.key_password"].value == "***"


class TestFaults:
    def test_all_are_listed_at_once(self, written) -> None:
        path = written("""
            [server]
            address = "localhost"
            adress = 5
            [log]
            level = "LOUD"
            [evaluator]
            interval_s = true
            allowed_lag = 1.5
            minimum_complete = 2
            [windows]
            intervals = 1
            min_distance_s = nan
            [clusters.prod]
            bootstrap = ["kafka1", "kafka:99999", 5, "plaintext://kafka:9092", "::1:9092"]
            group_allow = "orders-("
            commits = "admin"
            start = "latest"
            log_end_interval_s = "x"
            [clusters.prod.sasl]
            mechanism = "GSSAPI"
            password = "p"
            password_file = "/nowhere"
            [clusters.prod.tls]
            ca_file = "/nowhere/ca.pem"
            [clusters.prod.client]
            "group.id" = "mine"
            [clusters.b]
            topic_allow = 5
            tls = "yes"
            ["clusters"."a/b"]
            bootstrap = "a:1"
        """)

        found = faults(path, {"LAGWATCH_SERVER_ADDRESS": "x"})

        assert set(found) == {
            "server.address",
            "server.adress",
            "server_address",
            "log.level",
            "evaluator.interval_s",
            "evaluator.allowed_lag",
            "evaluator.minimum_complete",
            "windows.intervals",
            "windows.min_distance_s",
            *(f"clusters.prod.bootstrap[{index}]" for index in range(5)),
            "clusters.prod.group_allow",
            "clusters.prod.start",
            "clusters.prod.log_end_interval_s",
            "clusters.prod.sasl.mechanism",
            "clusters.prod.sasl.password",
            "clusters.prod.sasl.password_file",
            "clusters.prod.tls.ca_file",
            "clusters.prod.tls.enabled",
            'clusters.prod.client."group.id"',
            "clusters.b.bootstrap",
            "clusters.b.topic_allow",
            "clusters.b.tls",
            "clusters.a/b",
        }
        assert all(fault.problem and fault.remedy for fault in found.values())

    @pytest.mark.parametrize(
        ("key", "meant"),
        [
            ("server.adress", "server.address"),
            ("sever", "server"),
            ("windows.interval", "windows.intervals"),
            ("clusters.prod.min-distance-s", "windows.min_distance_s"),
            ("clusters.prod.group-allow", "clusters.prod.group_allow"),
            ("clusters.prod.tls.cafile", "clusters.prod.tls.ca_file"),
            ("clusters.prod.passwrd", "clusters.prod.sasl.password"),
        ],
    )
    def test_an_unknown_option_is_answered_with_the_one_meant(
        self, written, key: str, meant: str
    ) -> None:
        table, _, option = key.rpartition(".")
        head = f"[{table}]\n" if table and table != "clusters.prod" else ""
        text = f"{option} = 1\n{CLUSTER}" if not table else f"{CLUSTER}{head}{option} = 1\n"

        fault = faults(written(text))[key]

        assert fault.problem == "unknown option"
        assert fault.remedy == f"Did you mean '{meant}'?"

    def test_an_unknown_variable_is_answered_with_the_one_meant(self, written) -> None:
        environ = {
            "LAGWATCH_SERVER_ADDRESS": ":1",
            "LAGWATCH_CLUSTERS__PROD__BOOTSTRP": "a:1",
        }

        found = faults(written(CLUSTER), environ)

        assert "(from LAGWATCH_SERVER_ADDRESS)" in found["server_address"].problem
        assert "LAGWATCH_SERVER__ADDRESS" in found["server_address"].remedy
        remedy = found["clusters.prod.bootstrp"].remedy
        assert remedy == "Did you mean LAGWATCH_CLUSTERS__PROD__BOOTSTRAP?"

    def test_a_value_is_shown_as_it_was_written(self, written) -> None:
        fault = faults(written(CLUSTER + '[log]\nlevel = "LOUD"\n'))["log.level"]

        assert str(fault) == (
            'log.level = "LOUD": not one of the known words. '
            "Write trace / debug / info / warning / error / fatal."
        )

    def test_a_bad_regular_expression_is_reported_with_the_place(self, written) -> None:
        fault = faults(written(CLUSTER + 'topic_deny = "a(b"\n'))["clusters.prod.topic_deny"]

        assert "position 1" in fault.problem
        assert fault.value == '"a(b"'

    def test_a_variable_at_fault_is_named(self, written) -> None:
        environ = {"LAGWATCH_WINDOWS__INTERVALS": "many"}

        fault = faults(written(CLUSTER), environ)["windows.intervals"]

        assert fault.value == '"many"'
        assert "(from LAGWATCH_WINDOWS__INTERVALS)" in fault.problem

    def test_broken_toml_is_reported_with_its_line(self, written) -> None:
        path = written("[server]\naddress = \n")

        fault = faults(path)[str(path)]

        assert "line 2" in fault.problem

    def test_a_file_that_is_not_there_is_reported_by_its_path(self, tmp_path: Path) -> None:
        path = tmp_path / "none.toml"

        assert "No such file" in faults(path)[str(path)].problem

    def test_a_file_that_is_not_text_is_reported_so(self, tmp_path: Path) -> None:
        path = tmp_path / "binary.toml"
        path.write_bytes(b"\xff\xfe")

        assert "UTF-8" in faults(path)[str(path)].problem

    @pytest.mark.parametrize("text", ["", "[clusters]\n"])
    def test_no_cluster_at_all_is_reported_with_the_three_ways_to_give_one(
        self, written, text: str
    ) -> None:
        fault = faults(written(text))["clusters"]

        assert fault.problem == "no cluster is configured"
        assert "--bootstrap" in fault.remedy
        assert "LAGWATCH_CLUSTERS__NAME__BOOTSTRAP" in fault.remedy

    @pytest.mark.parametrize("brokers", ['""', "[]", '" , "'])
    def test_no_broker_is_reported_as_empty(self, written, brokers: str) -> None:
        fault = faults(written(f"[clusters.prod]\nbootstrap = {brokers}\n"))[
            "clusters.prod.bootstrap"
        ]

        assert fault.problem == "is empty"


class TestContradictions:
    @pytest.mark.parametrize(
        ("lines", "key"),
        [
            ('commits = "admin"\nstart = "latest"', "start"),
            ('commits = "admin"\noffsets_topic = "other"', "offsets_topic"),
            ('commits = "offsets-topic"\ncommitted_interval_s = 10', "committed_interval_s"),
            ('group_allow = "^a"\ngroup_deny = "^a"', "group_deny"),
            ("tls.enabled = false\ntls.cert_file = '{file}'\ntls.key_file='{file}'", "tls.enabled"),
            ("tls.enabled = true\ntls.cert_file = '{file}'", "tls.key_file"),
            ("tls.enabled = true\ntls.key_file = '{file}'", "tls.cert_file"),
            ("tls.enabled = true\ntls.key_password = 'x'", "tls.key_file"),
            ("sasl.mechanism = 'PLAIN'\nsasl.password = 'x'", "sasl.username"),
            ("sasl.mechanism = 'PLAIN'\nsasl.username = 'x'", "sasl.password"),
            ("sasl.mechanism = 'OAUTHBEARER'\nsasl.username = 'x'", "sasl.username"),
            ("tls.enabled = true\nsasl.mechanism = 'AWS_MSK_IAM'", "sasl.region"),
            ("sasl.mechanism = 'AWS_MSK_IAM'\nsasl.region = 'x'", "tls.enabled"),
            (
                (
                    "tls.enabled = true\nsasl.mechanism = 'aws_msk_iam'\nsasl.region = 'x'\n"
                    "sasl.role = 'r'\nsasl.profile = 'p'"
                ),
                "sasl.profile",
            ),
            ("sasl.mechanism = 'OAUTHBEARER'\nsasl.region = 'x'", "sasl.region"),
            ("client.'bootstrap.servers' = 'a:1'", 'client."bootstrap.servers"'),
            ("client.'group.id' = 'a'", 'client."group.id"'),
        ],
    )
    def test_options_that_cannot_stand_together_are_reported(
        self, written, tmp_path: Path, lines: str, key: str
    ) -> None:
        file = tmp_path / "some.pem"
        file.write_text("x")

        assert set(faults(written(CLUSTER + lines.format(file=file)))) == {f"clusters.prod.{key}"}

    @pytest.mark.parametrize(
        "lines",
        [
            'commits = "admin"\nstart = "earliest"\ncommitted_interval_s = 5',
            'group_allow = "^a"\ngroup_deny = "^b"',
            'group_allow = ""\ngroup_deny = ""',
            "tls.verify = true",
            "tls.enabled = true\ntls.ca_file = '{file}'",
            "sasl.mechanism = 'PLAIN'\nsasl.username = 'x'\nsasl.password_file = '{file}'",
        ],
    )
    def test_options_that_fit_are_taken(self, written, tmp_path: Path, lines: str) -> None:
        file = tmp_path / "some.pem"
        file.write_text("x")

        settings = load(written(CLUSTER + lines.format(file=file)), {})

        assert isinstance(settings, Settings)


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("127.0.0.1:8000", "127.0.0.1", 8000),
        (":0", "0.0.0.0", 0),  # noqa: S104 that is what an empty host means
        ("[::1]:8000", "::1", 8000),
        ("lagwatch.example:65535", "lagwatch.example", 65535),
    ],
)
def test_an_address_is_host_and_port(address: str, host: str, port: int) -> None:
    environ = {"LAGWATCH_CLUSTERS__A__BOOTSTRAP": "a:1", "LAGWATCH_SERVER__ADDRESS": address}
    environ["LAGWATCH_SERVER__OPEN"] = "true"

    server = load(None, environ).server

    assert (server.host, server.port) == (host, port)


@pytest.mark.parametrize("address", [":8000", "0.0.0.0:8000", "[::]:8000", "lagwatch.example:1"])
def test_an_address_that_others_reach_is_refused_without_authorization(address: str) -> None:
    environ = {"LAGWATCH_CLUSTERS__A__BOOTSTRAP": "a:1", "LAGWATCH_SERVER__ADDRESS": address}

    with pytest.raises(ConfigError, match=r"^server: address = .*`lagwatch token`.*open = true"):
        load(None, environ)


@pytest.mark.parametrize("network", ["0.0.0.0/0", "::/0"])
def test_a_proxy_that_may_be_anybody_is_refused(network: str) -> None:
    environ = {
        "LAGWATCH_CLUSTERS__A__BOOTSTRAP": "a:1",
        "LAGWATCH_SERVER__AUTH__PROXY__ADDRESSES": network,
    }

    with pytest.raises(ConfigError, match="anybody could name himself"):
        load(None, environ)


@pytest.mark.parametrize("address", ["localhost:8000", "127.0.0.2:8000", "[::1]:0"])
def test_an_address_of_this_machine_only_needs_no_authorization(address: str) -> None:
    environ = {"LAGWATCH_CLUSTERS__A__BOOTSTRAP": "a:1", "LAGWATCH_SERVER__ADDRESS": address}

    assert not load(None, environ).server.authenticates


class TestIntervals:
    @pytest.mark.parametrize(
        ("history", "evaluator", "remedy"),
        [
            ("interval_s = 1", "", "Write 4 or more, or set evaluator.interval_s to 0.5 or less."),
            ("interval_s = 30", "interval_s = 60", "Write 120 or more"),
            ("interval_s = 30", "interval_s = 30", "Write 60 or more"),
        ],
    )
    def test_samples_more_often_than_every_second_evaluation_are_refused(
        self, written, history, evaluator, remedy
    ) -> None:
        text = f"[history]\n{history}\n[evaluator]\n{evaluator}\n"

        found = faults(written(CLUSTER + text))

        assert remedy in found["history.interval_s"].remedy
        assert "evaluator.interval_s" in found["history.interval_s"].problem

    @pytest.mark.parametrize(
        ("url", "remedy"),
        [
            ("http://127.0.0.1:9200", 'For Elasticsearch write history.store = "elasticsearch"'),
            ("s3://", "Write s3://BUCKET/FOLDER."),
            ("nosuch://bucket/lag", "Write a folder, or a URL as s3://BUCKET/FOLDER."),
        ],
    )
    def test_addresses_that_name_no_folder_are_refused(self, written, url, remedy) -> None:
        found = faults(written(CLUSTER + f'[history]\nurl = "{url}"\n'))

        assert found["history.url"].value == url
        assert found["history.url"].remedy.startswith(remedy)

    @pytest.mark.parametrize(
        "url", ["s3://lag/history", "memory://lag", "file:///var/lag", "lag", "/var/lag"]
    )
    def test_addresses_of_folders_are_not(self, written, url) -> None:
        load(written(CLUSTER + f'[history]\nurl = "{url}"\n'), {})

    @pytest.mark.parametrize(
        "text",
        [
            "[history]\ninterval_s = 4\n",
            "[history]\ninterval_s = 1\n[evaluator]\ninterval_s = 0.5\n",
            '[history]\nstore = "none"\n[evaluator]\ninterval_s = 60\n',
        ],
    )
    def test_others_are_not(self, written, text) -> None:
        load(written(CLUSTER + text), {})


@pytest.mark.parametrize(
    "option", [each for each in options() if "list of" in each.kind], ids=lambda each: each.key
)
def test_every_list_can_be_a_text_with_commas(option: Option) -> None:
    path = tuple(part.replace("NAME", "a") for part in option.path)
    environ = {"LAGWATCH_CLUSTERS__A__BOOTSTRAP": "a:1", env_name(path): "b:1,c:1"}

    said = ""  # what the list holds may be wrong, or other options missing
    try:
        load(None, environ)
    except ConfigError as error:
        said = str(error)

    assert "Write list of" not in said
