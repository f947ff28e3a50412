"""The documented JSON of a message, and templates: Jinja2 in its sandbox, checked before use.

A template sees `message` (the documented JSON of a message), `notices` (its notices), `notice` and
`verdict` (of the first of them), `subject` (one line), `text` (ours, plain) and `entries` (the
worst of the notices, each with `headline`, `lines` and `notice`). Filters beside
Jinja2's own: `json`, `duration` (seconds), `instant` (ms), `number`, `printable` (a name).
"""

import json
import re
import traceback
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from lagwatch.core.words import duration, printable
from lagwatch.errors import Fault
from lagwatch.notify.message_words import (
    LONGEST_LINE,
    SHOWN_NOTICES,
    open_now,
    plain_text,
    subject,
    tone,
    worst,
)
from lagwatch.notify.notice import Message, brief
from lagwatch.notify.words import cut, details, headline, instant

if TYPE_CHECKING:  # loaded with the first template: the configuration alone needs none of it
    from jinja2 import Environment, Template, TemplateSyntaxError, nodes

_LONGEST_TEXT: Final = 8 << 20
"""Characters; far more than any receiver takes."""
_UNEXPECTED: Final = re.compile(r"(, got )(?!'(?:end of [a-z ]+|\W+)'$).*", re.DOTALL)
"""In what Jinja2 says: text of the template, unless it is punctuation or its end."""
VARIABLES: Final = (
    *("message", "notices", "notice", "verdict", "subject", "text", "tone", "entries", "open_now"),
)


def document(message: Message) -> dict[str, Any]:
    """Plain JSON; the notices of a brief message come without their partitions."""
    notices = [notice.as_json() for notice in message.notices]
    return {
        "version": 1,
        "id": message.id,
        "channel": message.channel,
        "event": "close" if message.closing else "open",
        "severity": message.severity,
        "at_ms": message.at_ms,
        "subject": subject(message),
        "notices": [brief(notice) for notice in notices] if message.brief else notices,
        "open_groups": {
            cluster: {"error": found.errors, "warning": found.warnings}
            for cluster, found in message.open_groups.items()
        },
    }


class RenderError(ValueError):
    """A template fails on a message."""


class Templates:
    """Compiles templates; `html` or `url` escapes what is put into them.

    No fault and no error quotes anything of a `secret` one: any part of it may be a password. A URL
    is secret, too.
    """

    def __init__(self, *, html: bool = False, url: bool = False, secret: bool = False) -> None:
        self._environment = _environment(html=html, url=url)
        self._is_url = url
        self._is_secret = secret or url

    def compile(self, source: str) -> "Renderer":
        """A template that `faults` found nothing wrong with."""
        template = self._environment.from_string(source)
        return Renderer(template, url=self._is_url, secret=self._is_secret)

    def shipped(self, name: str) -> "Renderer":
        """One of our own."""
        folder = resources.files("lagwatch.notify").joinpath("templates")
        return self.compile(folder.joinpath(name).read_text(encoding="utf-8"))

    def faults(self, key: str, source: str) -> list[Fault]:
        """What is wrong with the template of an option, with line and variable."""
        from jinja2 import TemplateSyntaxError

        try:
            tree = self._environment.parse(source)
            unknown = list(_unknown(tree))
        except TemplateSyntaxError as error:
            return [_fault(key, error.lineno, self._wrong(error), "Correct it.")]
        known = f"Use {', '.join(VARIABLES)}."
        if unknown:
            return [_fault(key, line, self._no_variable(name), known) for name, line in unknown]
        return list(self._trial(key, source))

    def _no_variable(self, name: str) -> str:
        return "there is no such variable" if self._is_secret else f"there is no variable {name!r}"

    def _wrong(self, error: "TemplateSyntaxError") -> str:
        """Jinja2's message about a template with a fault, without what may be secret."""
        from jinja2 import TemplateAssertionError

        if not self._is_secret:
            # where a tag is not closed, it would quote whatever comes next, such as a password
            return _UNEXPECTED.sub(r"\1something else", error.message or "is no template")
        if isinstance(error, TemplateAssertionError):
            return "there is no such filter or test"
        return "is no template: a tag is not written as Jinja2 reads it, or not closed"

    def _trial(self, key: str, source: str) -> Iterator[Fault]:
        """Render the samples: a wrong attribute shows only then."""
        from lagwatch.notify.sample import trial_messages

        renderer = self.compile(source)
        for message in trial_messages():
            try:
                renderer.render(message)
            except RenderError as error:
                remedy = "See the documented JSON of a message, or `lagwatch alert render`."
                yield _fault(key, _line(error.__cause__), str(error), remedy)
                return


class Renderer:
    """One compiled template."""

    def __init__(self, template: "Template", *, url: bool = False, secret: bool = False) -> None:
        self._template = template
        self._is_url = url
        self._is_secret = secret

    def render(self, message: Message) -> str:
        """The text for a message.

        Raises:
            RenderError: the message lacks what the template asks for.
        """
        return self.render_with(variables(message))

    def render_with(self, given: Mapping[str, Any]) -> str:
        """The text for other variables than those of a message.

        Raises:
            RenderError: the template asks for others.
        """
        try:
            text = self._template.render(given)
        except Exception as error:  # a template can fail in any way
            raise RenderError(_failure(error) if self._is_secret else str(error)) from error
        if len(text) > _LONGEST_TEXT:
            raise RenderError(f"it makes a text of {len(text):,} characters: too long to be sent")
        if not self._is_url:
            return text
        from lagwatch.notify.url_template import finished

        return finished(text)


def variables(message: Message) -> Mapping[str, Any]:
    """What templates see."""
    seen = document(message)
    first = seen["notices"][0]
    return {
        "message": seen,
        "notices": seen["notices"],
        "notice": first,
        "verdict": first["verdict"],
        "subject": seen["subject"],
        "text": plain_text(message),
        "tone": tone(message).value,
        "open_now": open_now(message),
        "entries": [
            {
                "headline": headline(notice),
                "lines": [cut(line, LONGEST_LINE) for line in details(notice)],
                "notice": notice.as_json(),
            }
            for notice in worst(message.notices)[:SHOWN_NOTICES]
        ],
    }


def _environment(*, html: bool, url: bool) -> "Environment":
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    from lagwatch.notify.url_template import UrlEnvironment

    environment: Environment = (
        UrlEnvironment()
        if url
        else ImmutableSandboxedEnvironment(
            undefined=StrictUndefined, autoescape=html, keep_trailing_newline=True
        )
    )
    environment.filters |= {
        "json": _as_json,
        "duration": duration,
        "instant": instant,
        "number": _number,
        "printable": printable,
    }
    return environment


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _unknown(tree: "nodes.Template") -> Iterator[tuple[str, int]]:
    """Variables that no message has and the template does not set itself."""
    from jinja2 import meta, nodes

    undeclared = meta.find_undeclared_variables(tree) - set(VARIABLES) - {"range", "dict"}
    seen: set[str] = set()
    for node in tree.find_all(nodes.Name):
        if node.name in undeclared and node.name not in seen:
            seen.add(node.name)
            yield node.name, node.lineno


def _failure(error: Exception) -> str:
    """Why a template fails, without anything of it."""
    from jinja2 import UndefinedError

    if isinstance(error, UndefinedError):
        return "it asks for something that the message does not have"
    return f"it cannot be rendered ({type(error).__name__})"


def _line(error: BaseException | None) -> int:
    trace = traceback.extract_tb(error.__traceback__ if error is not None else None)
    frames = [frame for frame in trace if frame.filename == "<template>"]
    return (frames[-1].lineno or 1) if frames else 1


def _fault(key: str, line: int, problem: str, remedy: str) -> Fault:
    return Fault(key=key, value="", problem=f"line {line}: {problem}", remedy=remedy)
