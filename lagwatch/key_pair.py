"""Reads a certificate with its key."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lagwatch.named_files import require_file

_NOT_YET: Final = 9
_EXPIRED: Final = 10
"""Source: OpenSSL, X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """Is a certificate valid by its dates?"""

    problem: str = ""
    until_s: float | None = None
    """In seconds since 1970; None if it is not valid now, or that could not be found out."""


def load_key_pair(context: ssl.SSLContext, cert_file: Path | str, key_file: Path | None) -> None:
    """Have a context use a certificate and its key, which has no pass phrase.

    OpenSSL would ask for a pass phrase on the terminal, and all of lagwatch would wait for it.

    Raises:
        OSError: a file cannot be read.
        ssl.SSLError: it is no certificate or key, they do not match, or the key has a pass phrase.
    """
    for file in (cert_file, key_file or cert_file):
        require_file(Path(file))
    context.load_cert_chain(cert_file, key_file, password=_no_pass_phrase)


def validity(context: ssl.SSLContext) -> Validity:
    """Until when is the certificate of a server valid? The context asks clients for none.

    Python shows the dates of a certificate only to a client that verified it: this is one, which
    trusts it and connects in memory.
    """
    curious = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    curious.check_hostname = False
    curious.verify_mode = ssl.CERT_NONE
    try:
        shown = _connected(context, curious).getpeercert(binary_form=True)
        if shown is None:
            return Validity()
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname = False
        client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        client.load_verify_locations(cadata=shown)
        dates = _connected(context, client).getpeercert() or {}
    except ssl.SSLCertVerificationError as error:
        if error.verify_code == _EXPIRED:
            return Validity(problem="has expired")
        return Validity(problem="is not valid yet" if error.verify_code == _NOT_YET else "")
    except ssl.SSLError:  # whatever else clients may find: they will say so
        return Validity()
    return Validity(until_s=float(ssl.cert_time_to_seconds(str(dates["notAfter"]))))


def _connected(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """The client's end of a connection within this process."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [asking, answering]
    while waiting:
        try:
            waiting[0].do_handshake()
        except ssl.SSLWantReadError:
            waiting.reverse()
        else:
            del waiting[0]
    return asking


def _no_pass_phrase() -> str:
    # of two arguments the second is what the error says
    raise ssl.SSLError(
        1, "the key has a pass phrase. Store it without one, readable by lagwatch alone"
    )
