"""Reads a certificate with its key."""

import ssl
from pathlib import Path


def load_key_pair(context: ssl.SSLContext, cert_file: Path | str, key_file: Path | None) -> None:
    """Have a context use a certificate and its key, which has no pass phrase.

    OpenSSL would ask for a pass phrase on the terminal, and all of lagwatch would wait for it.

    Raises:
        OSError: a file cannot be read.
        ssl.SSLError: it is no certificate or key, they do not match, or the key has a pass phrase.
    """
    context.load_cert_chain(cert_file, key_file, password=_no_pass_phrase)


def _no_pass_phrase() -> str:
    raise ssl.SSLError(
        "the key has a pass phrase. Store it without one, readable by lagwatch alone"
    )
