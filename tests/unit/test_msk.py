"""Log-in to Amazon MSK: the token as AWS describes it, checked without AWS.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

import base64
import hashlib
import hmac
import sys
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

from lagwatch.clock import SystemClock
from lagwatch.config import SaslSettings
from lagwatch.kafka import msk

KEY_ID, KEY = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


@pytest.fixture(autouse=True)
def _no_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def sasl(**options: str) -> SaslSettings:
    return SaslSettings.model_validate(
        {"mechanism": "AWS_MSK_IAM", "region": "eu-west-1", **options}
    )


def parts_of(token: str) -> tuple[str, dict[str, str]]:
    """Host and parameters of the signed request that a token is."""
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    return url.netloc, dict(parse_qsl(url.query))


def signature(host: str, parameters: dict[str, str], secret: str) -> str:
    """AWS's signature, version 4, of a request without a body."""
    signed = {
        name: value
        for name, value in sorted(parameters.items())
        if name not in {"X-Amz-Signature", "User-Agent"}
    }
    query = "&".join(
        f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in signed.items()
    )
    nothing = hashlib.sha256(b"").hexdigest()
    request = "\n".join(("GET", "/", query, f"host:{host}", "", "host", nothing))
    _, scope = parameters["X-Amz-Credential"].split("/", 1)
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = "\n".join(("AWS4-HMAC-SHA256", parameters["X-Amz-Date"], scope, digest))
    key = f"AWS4{secret}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()


def test_a_token_is_a_request_to_connect_signed_by_the_key(monkeypatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)

    token, expires_s = msk.token(sasl())

    host, parameters = parts_of(token)
    assert host == "kafka.eu-west-1.amazonaws.com"
    assert parameters["Action"] == "kafka-cluster:Connect"
    assert parameters["X-Amz-Credential"].startswith(f"{KEY_ID}/")
    assert parameters["X-Amz-Credential"].endswith("/eu-west-1/kafka-cluster/aws4_request")
    assert parameters["X-Amz-Signature"] == signature(host, parameters, KEY)
    assert expires_s == pytest.approx(SystemClock().now_ms() / 1000 + 900, abs=5)


def test_a_profile_has_a_key_of_its_own(monkeypatch, tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text(
        f"[kafka]\naws_access_key_id = AKIDKAFKA\naws_secret_access_key = {KEY}\n", "utf-8"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))

    host, parameters = parts_of(msk.token(sasl(profile="kafka"))[0])

    assert parameters["X-Amz-Credential"].startswith("AKIDKAFKA/")
    assert parameters["X-Amz-Signature"] == signature(host, parameters, KEY)


def test_without_credentials_there_is_no_token() -> None:
    with pytest.raises(msk.NoTokenError, match="AWS finds no credentials"):
        msk.token(sasl())


def test_an_unknown_profile_is_named() -> None:
    with pytest.raises(msk.NoTokenError, match="missing-profile"):
        msk.token(sasl(profile="missing-profile"))


def test_without_the_signer_the_extra_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer.MSKAuthTokenProvider", None)

    with pytest.raises(msk.NoTokenError, match=r"lagwatch\[msk\]"):
        msk.token(sasl())
