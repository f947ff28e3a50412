"""What is in deploy/: it parses, passes its linter, and the files it names exist."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from lagwatch.config.load import load
from lagwatch.config.tokens import read_tokens
from lagwatch.core.record.columns import ROLLUP_STEP_MS
from tests.support.dashboards import boards
from tests.support.prometheus import program

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
GRAFANA = ROOT / "grafana"
KUBERNETES_VERSION = "1.31"
_DEADLINE_S = 60


def yaml_files() -> list[Path]:
    found = [*DEPLOY.rglob("*.yaml"), *GRAFANA.rglob("*.yaml")]
    return sorted(found)


def documents(path: Path) -> list[Any]:
    return list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=_Strict))


class _Strict(yaml.SafeLoader):  # type: ignore[misc]  # the library has no types
    """YAML in which a key written twice is a fault, not the last one's victory."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - as the base class has it
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise yaml.YAMLError(f"{twice} stands twice {node.start_mark}")
        return super().construct_mapping(node, deep=deep)


def compose() -> Any:  # noqa: ANN401 - is YAML
    (document,) = documents(DEPLOY / "compose.yaml")
    return document


def checked(*command: str, cwd: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=_DEADLINE_S, check=False
    )


@pytest.mark.parametrize("path", yaml_files(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_yaml_file_parses_and_repeats_no_key(path) -> None:
    assert all(document is not None for document in documents(path))


def test_a_repeated_key_is_noticed(tmp_path) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text("a: {b: 1, b: 2}")

    with pytest.raises(yaml.YAMLError):
        documents(path)


# compose


def mounts() -> Iterator[tuple[str, Path, str]]:
    """Service, file on this machine, place in the container."""
    for name, service in compose()["services"].items():
        for volume in service.get("volumes", ()):
            source, target = volume.split(":")[:2]
            if source.startswith("."):
                yield name, (DEPLOY / source).resolve(), target


def test_compose_brings_everything_up() -> None:
    services = compose()["services"]

    wanted = {
        "kafka",
        "elasticsearch",
        "prometheus",
        "grafana",
        "alertmanager",
        "lagwatch",
        "rollup",
        "tokens",
    }
    assert set(services) == wanted
    assert all(
        re.fullmatch(r"[\w/.-]+(:[\w.]+)?", service["image"]) for service in services.values()
    )


def test_every_file_that_compose_mounts_exists() -> None:
    mounted = list(mounts())

    assert len(mounted) >= 6
    assert [str(path) for _, path, _ in mounted if not path.exists()] == []


def test_every_named_volume_is_declared() -> None:
    named = {
        volume.split(":")[0]
        for service in compose()["services"].values()
        for volume in service.get("volumes", ())
        if not volume.startswith(".")
    }

    assert named == set(compose()["volumes"])


def test_compose_opens_no_port_to_other_machines() -> None:
    ports = [
        port for service in compose()["services"].values() for port in service.get("ports", ())
    ]

    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_servers_that_the_files_name_are_services_of_compose() -> None:
    texts = [path.read_text(encoding="utf-8") for name, path, _ in mounts() if path.is_file()]
    texts += [path.read_text(encoding="utf-8") for path in GRAFANA.glob("provisioning/**/*.yaml")]

    named = set(re.findall(r'(?:http://|")([a-z]+):\d{4}\b', "\n".join(texts)))

    assert {"lagwatch", "alertmanager", "prometheus", "elasticsearch", "kafka"} <= named
    assert named <= set(compose()["services"])


def test_grafana_finds_dashboards_and_provisioning_where_compose_mounts_them() -> None:
    places = {target: path for name, path, target in mounts() if name == "grafana"}
    (provider,) = documents(GRAFANA / "provisioning/dashboards/lagwatch.yaml")[0]["providers"]
    home = compose()["services"]["grafana"]["environment"][
        "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"
    ]

    assert places["/etc/grafana/provisioning"] == GRAFANA / "provisioning"
    assert places[provider["options"]["path"]] == GRAFANA / "dashboards"
    assert (places[str(Path(home).parent)] / Path(home).name).is_file()


def test_the_history_dashboard_has_the_rollups_of_the_history_that_lagwatch_writes() -> None:
    services = compose()["services"]
    of_rollup = {target: path for name, path, target in mounts() if name == "rollup"}
    of_service = {target: path for name, path, target in mounts() if name == "lagwatch"}
    settings = load(of_rollup["/etc/lagwatch/lagwatch.toml"], {})

    (script,) = services["rollup"]["command"]
    checked_script = subprocess.run(
        ["sh", "-n"],  # noqa: S607
        input=script.replace("$$", "$"),
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )
    assert checked_script.returncode == 0, checked_script.stderr
    assert "lagwatch rollup --config /etc/lagwatch/lagwatch.toml" in script
    assert of_rollup == of_service
    assert "spark" in services["rollup"]["build"]["args"]["EXTRAS"].split(",")
    assert settings.history.store == "elasticsearch"


def test_grafana_asks_for_no_buckets_that_are_narrower_than_those_of_the_rollups() -> None:
    (sources,) = documents(GRAFANA / "provisioning/datasources/lagwatch.yaml")

    found = {
        source["jsonData"]["index"].rpartition("-")[2]: source["jsonData"]["timeInterval"]
        for source in sources["datasources"]
        if source["type"] == "elasticsearch"
    }

    assert found == {kind.value: kind.value.removeprefix("rollup_") for kind in ROLLUP_STEP_MS}


def test_every_kind_of_data_source_that_a_dashboard_asks_for_is_provisioned() -> None:
    (sources,) = documents(GRAFANA / "provisioning/datasources/lagwatch.yaml")
    asked = {
        variable["query"]
        for board in boards().values()
        for variable in board["templating"]["list"]
        if variable["type"] == "datasource"
    }

    assert asked == {"prometheus", "elasticsearch"}
    assert asked == {source["type"] for source in sources["datasources"]}


def test_the_configuration_for_compose_is_sound() -> None:
    settings = load(DEPLOY / "compose" / "lagwatch.toml", {})

    assert settings.history.store == "elasticsearch"
    assert settings.server.host == "0.0.0.0"  # noqa: S104 - inside its container
    assert settings.server.authenticates


def test_compose_makes_the_tokens_that_its_files_name(tmp_path) -> None:
    services = compose()["services"]
    (script,) = services["tokens"]["command"]
    bin_folder = Path(sys.executable).parent
    script = script.replace("/run/lagwatch", str(tmp_path)).replace("chown 10001", "true")
    command = ["sh", "-ec", f"PATH={bin_folder}:$PATH\n{script}"]

    first, _ = checked(*command), checked(*command)

    assert first.returncode == 0, first.stderr
    scopes = {token.name: token.scope for token in read_tokens(tmp_path / "tokens")}
    assert scopes == {"admin": "admin", "prometheus": "read"}
    settings = load(DEPLOY / "compose" / "lagwatch.toml", {})
    assert settings.server.auth.tokens_file == Path("/run/lagwatch/tokens")
    (job,) = documents(DEPLOY / "prometheus" / "prometheus.yaml")[0]["scrape_configs"]
    assert (tmp_path / Path(job["authorization"]["credentials_file"]).name).is_file()
    for name in ("lagwatch", "prometheus"):
        assert "tokens:/run/lagwatch:ro" in services[name]["volumes"]
        assert "tokens" in services[name]["depends_on"]


# image


def test_everything_that_the_image_copies_is_let_into_its_context() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    allowed = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    copied = {
        name
        for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE)
        for name in line.split()[:-1]
    }

    assert copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert {f"!{name}" for name in copied} <= set(allowed)


def test_the_image_does_not_run_as_root_and_knows_its_health() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")

    assert len(re.findall(r"^FROM ", text, re.MULTILINE)) == 2
    assert re.findall(r"^USER (\d+)$", text, re.MULTILINE) == ["10001"]
    assert "/healthz" in text.split("HEALTHCHECK")[1]


def test_the_constraints_of_the_image_pin_every_locked_package() -> None:
    command = re.search(
        r"^RUN (sed .*) > constraints", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE
    )
    assert command

    made = checked("sh", "-c", command[1])

    lines = [line for line in made.stdout.splitlines() if line.strip()]
    assert len(lines) > 20
    assert all(re.fullmatch(r"[\w.\[\]-]+==[\w.!+]+( ; .*)?", line) for line in lines), lines[:3]


# Kubernetes


def manifests() -> list[Any]:
    return documents(DEPLOY / "kubernetes" / "lagwatch.yaml")


def nightly() -> Any:  # noqa: ANN401 - is YAML
    (manifest,) = documents(DEPLOY / "kubernetes" / "nightly.yaml")
    return manifest


@pytest.mark.parametrize("manifest", [*manifests(), nightly()], ids=lambda each: each["kind"])
def test_manifests_follow_the_schema_of_kubernetes(manifest) -> None:
    kubernetes_validate.validate(manifest, KUBERNETES_VERSION, strict=True)


def test_an_unknown_field_in_a_manifest_is_noticed() -> None:
    (service,) = [manifest for manifest in manifests() if manifest["kind"] == "Service"]
    service["spec"]["port"] = 1

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(service, KUBERNETES_VERSION, strict=True)


def test_manifests_fit_each_other() -> None:
    by_kind = {manifest["kind"]: manifest for manifest in manifests()}
    pod = by_kind["Deployment"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}

    selector = by_kind["Service"]["spec"]["selector"].items()
    assert selector <= pod["metadata"]["labels"].items()
    assert volumes["configuration"]["configMap"]["name"] == by_kind["ConfigMap"]["metadata"]["name"]
    claim = volumes["data"]["persistentVolumeClaim"]["claimName"]
    assert claim == by_kind["PersistentVolumeClaim"]["metadata"]["name"]
    assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_configuration_in_the_manifests_is_sound(tmp_path) -> None:
    (config,) = [manifest for manifest in manifests() if manifest["kind"] == "ConfigMap"]
    path = tmp_path / "lagwatch.toml"
    path.write_text(config["data"]["lagwatch.toml"])

    server = load(path, {}).server
    assert server.port == 8000
    (pod,) = [
        manifest["spec"]["template"]["spec"]
        for manifest in manifests()
        if manifest["kind"] == "Deployment"
    ]
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert server.auth.tokens_file == Path(mounts["tokens"]) / "tokens"


def test_the_nightly_chain_uses_the_volumes_of_the_service() -> None:
    by_kind = {manifest["kind"]: manifest for manifest in manifests()}
    pod = nightly()["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}

    claim = volumes["data"]["persistentVolumeClaim"]["claimName"]
    assert claim == by_kind["PersistentVolumeClaim"]["metadata"]["name"]
    assert volumes["configuration"]["configMap"]["name"] == by_kind["ConfigMap"]["metadata"]["name"]
    assert pod["serviceAccountName"] == by_kind["ServiceAccount"]["metadata"]["name"]
    for container in pod["containers"]:
        assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
        assert container["securityContext"]["readOnlyRootFilesystem"] is True


# systemd


@pytest.fixture
def units(tmp_path) -> Path:
    """The units in a folder of their own, with programs that are there."""
    for path in (DEPLOY / "systemd").iterdir():
        text = path.read_text(encoding="utf-8")
        (tmp_path / path.name).write_text(text.replace("/opt/lagwatch/bin/lagwatch", "/bin/true"))
    return tmp_path


@pytest.mark.parametrize("name", ["lagwatch.service", "lagwatch-nightly.service"])
def test_systemd_understands_the_unit_and_finds_it_confined(units, name) -> None:
    analyze = _analyze()

    verified = checked(analyze, "verify", "--man=no", str(units / name))
    exposed = checked(
        analyze, "security", "--offline=true", "--no-pager", "--threshold=20", str(units / name)
    )

    assert (verified.returncode, verified.stderr) == (0, "")
    assert exposed.returncode == 0, exposed.stdout


def test_systemd_understands_the_timer(units) -> None:
    timer = units / "lagwatch-nightly.timer"
    when = re.search(r"^OnCalendar=(.*)$", timer.read_text(), re.MULTILINE)
    assert when

    verified = checked(_analyze(), "verify", "--man=no", str(timer))
    understood = checked(_analyze(), "calendar", when[1])

    assert (verified.returncode, verified.stderr) == (0, "")
    assert understood.returncode == 0, understood.stderr


def _analyze() -> str:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed (Debian: apt-get install systemd)")
    return analyze


# the nightly chain


def test_the_nightly_unit_and_pod_run_the_nightly_command() -> None:
    text = (DEPLOY / "systemd" / "lagwatch-nightly.service").read_text(encoding="utf-8")
    pod = nightly()["spec"]["jobTemplate"]["spec"]["template"]["spec"]

    assert re.findall(r"^ExecStart=\S+/lagwatch (\w+)", text, re.MULTILINE) == ["nightly"]
    assert "SuccessExitStatus=1" in text
    assert [container["args"][0].split()[:2] for container in pod["containers"]] == [
        ["lagwatch", "nightly"]
    ]


@pytest.mark.parametrize(("code", "said"), [(0, 0), (1, 0), (2, 2), (3, 3)])
def test_cron_reports_no_failure_when_only_something_was_set_aside(tmp_path, code, said) -> None:
    """A `lagwatch` that notes what is asked of it, and ends as it is reported."""
    program_file = tmp_path / "lagwatch"
    program_file.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/ran\nexit {code}\n')
    program_file.chmod(0o755)

    done = subprocess.run(
        [DEPLOY / "cron" / "lagwatch-nightly", "/some.toml"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        timeout=_DEADLINE_S,
        check=False,
    )

    assert (tmp_path / "ran").read_text() == "nightly --config /some.toml\n"
    assert done.returncode == said


# Prometheus and Alertmanager


def test_prometheus_understands_its_configuration(tmp_path) -> None:
    text = (DEPLOY / "prometheus" / "prometheus.yaml").read_text(encoding="utf-8")
    mounted = {target: path for name, path, target in mounts() if name == "prometheus"}
    rules = mounted["/etc/prometheus/rules/lagwatch.rules.yaml"]
    shutil.copy(rules, tmp_path)
    path = tmp_path / "prometheus.yaml"
    (tmp_path / "prometheus").write_text("token")
    text = text.replace("/run/lagwatch", str(tmp_path))
    path.write_text(text.replace("/etc/prometheus/rules", str(tmp_path)))

    done = checked(program("promtool"), "check", "config", str(path))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 rule files found" in done.stdout


def test_alertmanager_understands_its_configuration() -> None:
    path = DEPLOY / "alertmanager" / "alertmanager.yaml"

    done = checked(program("amtool"), "check-config", str(path))

    assert done.returncode == 0, done.stdout + done.stderr
