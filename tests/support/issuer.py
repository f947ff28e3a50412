"""A token issuer on loopback, as OAUTHBEARER's client credentials flow asks for one."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

HOUR_S = 3600


def token(subject: str, *, expires_in_s: int = HOUR_S, algorithm: str = "none") -> str:
    """A JSON Web Token without a signature, or with one that is nonsense."""
    now_s = int(time.time())  # noqa: TID251 the broker has the clock of the machine
    claims = {"sub": subject, "iat": now_s - HOUR_S, "exp": now_s + expires_in_s}
    parts = [json.dumps(part).encode() for part in ({"alg": algorithm}, claims)]
    encoded = [base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, "" if algorithm == "none" else "AAAA"])


@dataclass(slots=True)
class Issuer:
    """Gives tokens to clients that know the secret."""

    url: str
    subject: str
    secret: str
    expires_in_s: int = HOUR_S
    algorithm: str = "none"
    asked: list[str] = field(default_factory=list)
    """Who asked, with the secret given."""


@contextmanager
def issuing(subject: str, secret: str) -> Iterator[Issuer]:
    """An issuer until the block ends."""
    issuer = Issuer(url="", subject=subject, secret=secret)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            basic = self.headers.get("Authorization", "").removeprefix("Basic ")
            name, _, given = base64.b64decode(basic).decode().partition(":")
            issuer.asked.append(f"{unquote(name)}:{unquote(given)}")
            if unquote(given) == issuer.secret:
                given = token(
                    issuer.subject, expires_in_s=issuer.expires_in_s, algorithm=issuer.algorithm
                )
                body = {"access_token": given, "token_type": "Bearer", "expires_in": HOUR_S}
                self._answer(200, body)
            else:
                self._answer(401, {"error": "invalid_client"})

        def _answer(self, status: int, body: dict[str, object]) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Keep the output of tests clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        issuer.url = f"http://127.0.0.1:{server.server_port}/token"
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
