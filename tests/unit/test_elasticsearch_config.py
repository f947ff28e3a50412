"""`[history.elasticsearch]` as it is read from a file and the environment."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from lagwatch.config.load import load
from lagwatch.config.settings import Settings
from lagwatch.errors import ConfigError

_CLUSTER = '[clusters.prod]\nbootstrap = "127.0.0.1:9092"\n'


def read(folder: Path, section: str, environ: Mapping[str, str] | None = None) -> Settings:
    file = folder / "lagwatch.toml"
    file.write_text(f"{_CLUSTER}[history.elasticsearch]\n{section}\n", encoding="utf-8")
    return load(file, environ or {})


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text("s3cret\n", encoding="utf-8")
    return file


def test_the_api_key_is_read_from_its_file(tmp_path: Path, secret: Path) -> None:
    found = read(tmp_path, f'api_key_file = "{secret}"').history.elasticsearch

    assert found.api_key is not None
    assert found.api_key.get_secret_value() == "s3cret"


def test_the_password_is_read_from_its_file(tmp_path: Path, secret: Path) -> None:
    found = read(tmp_path, f'username = "me"\npassword_file = "{secret}"').history.elasticsearch

    assert found.password is not None
    assert found.password.get_secret_value() == "s3cret"


def test_a_key_from_the_environment_goes_before_a_file(tmp_path: Path, secret: Path) -> None:
    environ = {"LAGWATCH_HISTORY__ELASTICSEARCH__API_KEY": "fr0m outside"}

    found = read(tmp_path, f'api_key_file = "{secret}"', environ).history.elasticsearch

    assert found.api_key is not None
    assert found.api_key.get_secret_value() == "fr0m outside"


@pytest.mark.parametrize(
    ("section", "fault"),
    [
        ('api_key = "a"\nusername = "me"\npassword = "b"', "one way to authenticate"),
        ('api_key = "a"\napi_key_file = "/nowhere"', "given twice"),
        ('api_key_file = "/nowhere"', "api_key_file = /nowhere: cannot be read"),
        ('password = "b"', "username: is missing"),
        ('username = "me"', "password_file: is missing"),
        ('urls = ["https://a:9200"]\nca_file = "/nowhere"', "ca_file = /nowhere: cannot be read"),
        ('fingerprint = "' + "0" * 64 + '"', "no URL is encrypted"),
        ('urls = ["https://me:pw@a:9200"]', "holds a user"),
    ],
)
def test_what_does_not_fit_together_is_named(tmp_path: Path, section: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        read(tmp_path, section)


def test_a_ca_and_a_fingerprint_are_one_too_many(tmp_path: Path, secret: Path) -> None:
    section = f'urls = ["https://a"]\nca_file = "{secret}"\nfingerprint = "{"0" * 64}"'

    with pytest.raises(ConfigError, match="beside ca_file"):
        read(tmp_path, section)


def test_no_secret_is_reported_in_a_fault(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, 'api_key = "t0psecret"\nusername = "me"\npassword = "als0secret"\nx = 1')

    assert "t0psecret" not in str(caught.value)
    assert "als0secret" not in str(caught.value)
