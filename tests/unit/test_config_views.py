"""What is made of the settings: the text of `config show`, the reference, Burrow's view."""

import tomllib
from pathlib import Path

import pytest

from lagwatch.config.burrow import BurrowView
from lagwatch.config.load import load, load_with_origins
from lagwatch.config.reference import env_name, markdown, options
from lagwatch.config.show import as_toml, as_tree
from lagwatch.errors import ConfigError
from lagwatch.ports.queries import BurrowSettings

ENVIRON = {
    "LAGWATCH_CLUSTERS__prod__BOOTSTRAP": "kafka-1:9092,kafka-2:9092",
    "LAGWATCH_CLUSTERS__prod__GROUP_ALLOW": "^orders",
    "LAGWATCH_CLUSTERS__prod__START": "latest",
    "LAGWATCH_CLUSTERS__prod__LOG_END_INTERVAL_S": "2.5",
    "LAGWATCH_CLUSTERS__prod__TLS__ENABLED": "true",
    "LAGWATCH_CLUSTERS__prod__TLS__VERIFY": "false",
    "LAGWATCH_CLUSTERS__prod__SASL__MECHANISM": "PLAIN",
    "LAGWATCH_CLUSTERS__prod__SASL__USERNAME": "watcher",
    "LAGWATCH_CLUSTERS__prod__SASL__PASSWORD": "hunter2",
    "LAGWATCH_CLUSTERS__prod__CLIENT__SASL_OAUTHBEARER_CLIENT_SECRET": "hunter2",
    "LAGWATCH_CLUSTERS__prod__CLIENT__SOCKET_TIMEOUT_MS": "1000",
    "LAGWATCH_CLUSTERS__Dev__BOOTSTRAP": "localhost:9092",
}


def complaints(environ: dict[str, str]) -> str:
    """Everything that is wrong; "" when nothing is."""
    try:
        load(None, environ)
    except ConfigError as error:
        return str(error)
    return ""


class TestShow:
    def test_no_secret_is_shown(self) -> None:
        text = as_toml(load_with_origins(None, ENVIRON))

        assert "hunter2" not in text
        assert 'password = "***"' in text
        assert '"sasl.oauthbearer.client.secret" = "***"' in text
        assert '"socket.timeout.ms" = "1000"' in text

    def test_the_text_is_toml_that_says_what_is_in_force(self) -> None:
        loaded = load_with_origins(None, ENVIRON)

        assert tomllib.loads(as_toml(loaded)) == as_tree(loaded)

    def test_what_is_shown_can_be_loaded_again(self, tmp_path: Path) -> None:
        environ = {
            "LAGWATCH_CLUSTERS__a__BOOTSTRAP": "a:1",
            "LAGWATCH_CLUSTERS__a__COMMITS": "admin",
        }
        loaded = load_with_origins(None, environ)
        path = tmp_path / "shown.toml"
        path.write_text(as_toml(loaded))

        assert load(path, {}) == loaded.settings

    def test_each_option_is_shown_with_who_set_it(self) -> None:
        lines = as_toml(load_with_origins(None, ENVIRON)).splitlines()

        assert 'start = "latest"  # LAGWATCH_CLUSTERS__prod__START' in lines
        assert "intervals = 10  # default" in lines


class TestReference:
    def test_every_option_has_a_kind_and_a_meaning(self) -> None:
        assert len(options()) >= 33
        assert all(option.kind and option.meaning for option in options())

    def test_every_option_has_a_row_in_its_section_or_among_the_shared_ones(self) -> None:
        tables = {
            part.split("`")[1].strip("[]"): [
                line.split("`")[1] for line in part.splitlines() if line.startswith("| `")
            ]
            for part in markdown().split("\n### ")
        }
        shared = tables.pop("alerts.KIND.NAME")

        assert tables.keys() == {option.section for option in options()}
        for option in options():
            own = tables[option.section]
            assert option.path[-1] in (own if option.path[0] != "alerts" else own + shared)

    def test_what_channels_share_is_shown_once_with_the_kinds_it_is_for(self) -> None:
        rows = [line for line in markdown().splitlines() if line.startswith("| `")]

        assert len([row for row in rows if row.startswith("| `give_up_after_s`")]) == 1
        (token,) = [row for row in rows if row.startswith("| `token`")]
        assert token.endswith("| alertmanager, webhook |")

    def test_no_text_breaks_a_table(self) -> None:
        rows = [line for line in markdown().splitlines() if line.startswith("|")]

        assert all(row.replace("\\|", "").count("|") in {5, 6} for row in rows)

    def test_defaults_are_those_of_the_settings(self) -> None:
        by_key = {option.key: option.default for option in options()}

        assert by_key["windows.expire_group_s"] == "604800"
        assert by_key["clusters.NAME.offsets_topic"] == '"__consumer_offsets"'
        assert by_key["clusters.NAME.bootstrap"] == "required"
        assert by_key["clusters.NAME.tls.ca_file"] == ""

    @pytest.mark.parametrize("option", options(), ids=lambda option: option.key)
    def test_the_variable_of_an_option_sets_it(self, option) -> None:
        name = env_name(option.path)
        variable = f"{name}__SOCKET_TIMEOUT_MS" if option.path[-1] == "client" else name
        environ = {"LAGWATCH_CLUSTERS__NAME__BOOTSTRAP": "a:1", variable: "x"}

        assert "unknown option" not in complaints(environ)

    def test_the_variable_of_no_option_sets_nothing(self) -> None:
        environ = {"LAGWATCH_CLUSTERS__NAME__BOOTSTRAP": "a:1", "LAGWATCH_WINDOWS__SIZE": "x"}

        assert "unknown option" in complaints(environ)


class TestBurrowView:
    @pytest.fixture
    def view(self) -> BurrowSettings:
        return BurrowView(load(None, ENVIRON))

    def test_clusters_are_modules_of_cluster_and_consumer_with_their_case_kept(
        self, view: BurrowSettings
    ) -> None:
        assert view.modules("cluster") == view.modules("consumer") == ("Dev", "prod")
        assert view.modules("storage") == view.modules("evaluator") == ("default",)
        assert view.modules("notifier") == ()

    def test_a_cluster_has_the_keys_of_burrow(self, view: BurrowSettings) -> None:
        assert view.module("cluster", "prod") == {
            "class-name": "kafka",
            "servers": ["kafka-1:9092", "kafka-2:9092"],
            "client-profile": {
                "name": "prod",
                "client-id": "lagwatch",
                "kafka-version": "",
                "tls": {
                    "name": "prod",
                    "noverify": True,
                    "certfile": "",
                    "keyfile": "",
                    "cafile": "",
                },
                "sasl": {"name": "prod", "handshake-first": True, "username": "watcher"},
            },
            "topic-refresh": 60,
            "offset-refresh": 3,
        }

    def test_a_consumer_has_the_keys_of_burrow(self, view: BurrowSettings) -> None:
        module = view.module("consumer", "prod")

        assert module is not None
        assert list(module) == [
            "class-name",
            "cluster",
            "servers",
            "group-allowlist",
            "zookeeper-path",
            "zookeeper-timeout",
            "client-profile",
            "offsets-topic",
            "start-latest",
        ]
        assert module["group-allowlist"] == "^orders"
        assert module["start-latest"] is True

    def test_storage_and_evaluator_have_the_keys_of_burrow(self, view: BurrowSettings) -> None:
        assert view.module("storage", "default") == {
            "class-name": "inmemory",
            "intervals": 10,
            "min-distance": 1,
            "group-allowlist": "",
            "expire-group": 604_800,
        }
        assert view.module("evaluator", "default") == {"class-name": "caching", "expire-cache": 2}

    def test_unknown_modules_are_none(self, view: BurrowSettings) -> None:
        assert view.module("cluster", "PROD") is None
        assert view.module("notifier", "default") is None
        assert view.module("nonsense", "default") is None

    def test_the_main_configuration_has_the_keys_of_burrow(self, view: BurrowSettings) -> None:
        main = view.main()

        assert list(main) == ["general", "logging", "zookeeper", "httpserver"]
        assert main["httpserver"] == {
            "default": {"address": "127.0.0.1:8000", "tls": "", "timeout": 0}
        }

    def test_no_secret_is_shown(self, view: BurrowSettings) -> None:
        shown = [
            view.module(coordinator, name)
            for coordinator in ("cluster", "consumer")
            for name in view.modules(coordinator)
        ]

        assert "hunter2" not in str(shown)


@pytest.mark.parametrize("origin", ["", "*", "https://tools.example.com", "http://[::1]:3000"])
def test_whose_pages_may_read_is_told_as_burrow_does(origin: str) -> None:
    environ = {**ENVIRON, "LAGWATCH_SERVER__ALLOW_ORIGIN": origin}

    main = BurrowView(load(None, environ)).main()

    assert main["general"]["access-control-allow-origin"] == origin  # type: ignore[index]


@pytest.mark.parametrize("origin", ["tools.example.com", "https://a/b", "https://a b", "a\r\nX: y"])
def test_what_is_no_origin_is_refused(origin: str) -> None:
    said = complaints({**ENVIRON, "LAGWATCH_SERVER__ALLOW_ORIGIN": origin})

    assert "is no origin" in said
    assert "Write https://tools.example.com, without a path, or *." in said
