"""A throw-away certificate authority and one server certificate for the loopback, as PEM files."""

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_ONE_DAY = dt.timedelta(days=1)


def write_certificates(directory: Path) -> None:
    """Write `ca.pem` (to be trusted) and `server.pem` (key as PKCS#8, then its certificate).

    The server certificate is good for `localhost` and 127.0.0.1, from yesterday for two days.
    """
    ca_key, key = _new_key(), _new_key()
    ca_name, name = _name("lagwatch embedded CA"), _name("localhost")
    authority = (
        _builder(ca_name, issuer=ca_name, key=ca_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    loopback = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    server = (
        _builder(name, issuer=ca_name, key=key)
        .add_extension(x509.SubjectAlternativeName(loopback), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "ca.pem").write_bytes(_pem(authority))
    server_file = directory / "server.pem"
    server_file.touch(mode=0o600)
    server_file.write_bytes(_private_pem(key) + _pem(server))


def _builder(
    subject: x509.Name, *, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)  # noqa: TID251 - a certificate's dates are of today
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _ONE_DAY)
        .not_valid_after(now + 2 * _ONE_DAY)
    )


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
