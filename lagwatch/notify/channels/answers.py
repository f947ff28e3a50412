"""What services answered to a library that keeps it to itself.

Apprise's plugins send with `requests` and report only whether the message was accepted. So
`requests` notes every answer to calls made within `noted`, and follows no redirect in them; other
calls are as before.

Source: requests, `Session.send`, which all of its functions call.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import requests

    Answer = requests.Response | requests.RequestException

_NOTED: ContextVar["list[Answer] | None"] = ContextVar("noted_answers", default=None)
_MARK: Final = "_lagwatch_notes_answers"


@contextmanager
def noted() -> Iterator["list[Answer]"]:
    """The answers, and errors in their place, of the requests that the block makes.

    Those of threads as well, if they run in a copy of its context.
    """
    _install()
    found: list[Answer] = []
    token = _NOTED.set(found)
    try:
        yield found
    finally:
        _NOTED.reset(token)


def _install() -> None:
    import requests

    send = requests.Session.send
    if hasattr(send, _MARK):
        return

    def noting(
        self: requests.Session,
        request: requests.PreparedRequest,
        **options: Any,  # noqa: ANN401
    ) -> requests.Response:
        found = _NOTED.get()
        if found is None:
            return send(self, request, **options)
        try:
            response = send(self, request, **options | {"allow_redirects": False})
        except requests.RequestException as error:
            found.append(error)
            raise
        found.append(response)
        return response

    setattr(noting, _MARK, True)
    requests.Session.send = noting  # type: ignore[method-assign]  # the only place all calls pass
